#include "machined/confined/login1/locks/kept-locks.h"

#include <capnp/serialize.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::login1 {
namespace {

constexpr kj::byte kFormat = 1;
constexpr unsigned kMostMessages = 4096;  // more than a pair of sockets can have

[[noreturn]] void damaged(kj::StringPtr what) {
  fail(ErrorKind::kFailedPrecondition, kj::str("the kept locks are damaged: ", what));
}

// Reading any other descriptor might never end, or could not be awaited.
bool isReadingEnd(int fd) {
  struct stat status;
  int flags = fcntl(fd, F_GETFL);
  return fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode) && flags >= 0 &&
         (flags & O_ACCMODE) == O_RDONLY && (flags & O_NONBLOCK) != 0;
}

kj::Vector<kj::AutoCloseFd> descriptorsOf(struct msghdr& message) {
  kj::Vector<kj::AutoCloseFd> all;
  for (auto* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
      int fd;
      memcpy(&fd, reinterpret_cast<const char*>(c) + at, sizeof(int));
      all.add(kj::AutoCloseFd(fd));
    }
  }
  return all;
}

}  // namespace

kj::Array<kj::byte> encodeLocks(kj::ArrayPtr<const Inhibitor* const> locks) {
  kj::VectorOutputStream out;
  out.write(&kFormat, sizeof kFormat);
  for (auto* lock : locks) {
    capnp::MallocMessageBuilder record;
    auto spec = record.initRoot<rpc::InhibitorSpec>();
    spec.setWho(lock->who);
    spec.setWhat(lock->what);
    spec.setWhy(lock->why);
    spec.setMode(lock->mode);
    spec.setUid(lock->uid);
    spec.setPid(lock->pid);
    spec.setSince(dateText(lock->since));
    capnp::writeMessage(out, record);
  }
  return kj::heapArray<kj::byte>(out.getArray());
}

kj::Vector<Inhibitor> decodeLocks(kj::ArrayPtr<const kj::byte> message, size_t count) {
  if (message.size() == 0 || message[0] != kFormat) damaged("another format");
  if (message.size() > kMostKeptBytes) damaged("more than 64 KiB");
  if (count > kMostInhibitors) damaged("too many of them");
  kj::Vector<Inhibitor> locks;
  kj::ArrayInputStream in(message.slice(1, message.size()));
  capnp::ReaderOptions limits;
  limits.traversalLimitInWords = kMostKeptBytes / sizeof(capnp::word);
  limits.nestingLimit = 4;
  for (size_t i = 0; i < count; ++i) {
    capnp::InputStreamMessageReader record(in, limits);
    auto spec = record.getRoot<rpc::InhibitorSpec>();
    Inhibitor lock{.what = kj::str(spec.getWhat()),
                   .who = kj::str(spec.getWho()),
                   .why = kj::str(spec.getWhy()),
                   .mode = kj::str(spec.getMode()),
                   .uid = spec.getUid(),
                   .pid = spec.getPid()};
    KJ_IF_MAYBE (since, parseDate(spec.getSince())) {
      lock.since = *since;
    } else {
      damaged("a lock without its time");
    }
    locks.add(kj::mv(lock));
  }
  if (in.tryGetReadBuffer().size() > 0) damaged("more of them than pipes");
  return locks;
}

// Removes all messages but the newest, and returns its size; 0 if there is no message. The newest
// is the message that is as large as all queued bytes together.
size_t KeptLocks::leaveNewest() {
  for (unsigned i = 0; i < kMostMessages; ++i) {
    char first;
    auto size = recv(receiving, &first, sizeof first, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (size < 0) return 0;
    int all = 0;
    KJ_SYSCALL(ioctl(receiving, FIONREAD, &all));
    if (size > 0 && static_cast<ssize_t>(all) <= size) return static_cast<size_t>(size);
    removeOldest();
  }
  return 0;
}

// Removes the message and its descriptors, which the kernel closes because they are not received.
void KeptLocks::removeOldest() {
  char first;
  recv(receiving, &first, sizeof first, MSG_DONTWAIT);
}

kj::Vector<KeptLocks::Lock> KeptLocks::restore() {
  if (leaveNewest() == 0) return {};
  kj::Vector<Lock> locks;
  auto failed = kj::runCatchingExceptions([&] { locks = read(); });
  KJ_IF_MAYBE (e, failed) {
    log::error("cannot restore the locks of the login1 before; going on without them",
               {{"error", messageOf(*e)}});
    removeOldest();
  }
  return locks;
}

kj::Vector<KeptLocks::Lock> KeptLocks::read() {
  auto bytes = kj::heapArray<kj::byte>(kMostKeptBytes);
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostInhibitors)];
  struct iovec io = {bytes.begin(), bytes.size()};
  struct msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t size;
  KJ_SYSCALL(size = recvmsg(receiving, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
  auto pipes = descriptorsOf(message);
  if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) damaged("too large");
  auto known = decodeLocks(bytes.slice(0, static_cast<size_t>(size)), pipes.size());
  kj::Vector<Lock> locks;
  for (auto i : kj::indices(known)) {
    if (!isReadingEnd(pipes[i])) damaged("a descriptor that is not the reading end of a pipe");
    locks.add(Lock{kj::mv(known[i]), kj::mv(pipes[i])});
  }
  return locks;
}

void KeptLocks::replace(kj::ArrayPtr<const Reference> all) {
  KJ_REQUIRE(all.size() <= kMostInhibitors);
  auto locks = KJ_MAP(each, all) {
    return each.lock;
  };
  auto pipes = KJ_MAP(each, all) {
    return each.pipe;
  };
  auto bytes = encodeLocks(locks);
  struct iovec io = {bytes.begin(), bytes.size()};
  struct msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostInhibitors)] = {};
  if (pipes.size() > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * pipes.size());
    auto* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * pipes.size());
    memcpy(CMSG_DATA(c), pipes.begin(), sizeof(int) * pipes.size());
  }
  if (sendmsg(sending, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    log::warn("cannot keep the locks; a restart of login1 restores the ones before",
              {{"error", strerror(errno)}});
    return;
  }
  leaveNewest();
}

}  // namespace talos::login1
