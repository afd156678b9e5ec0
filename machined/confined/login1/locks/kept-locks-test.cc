#include "machined/confined/login1/locks/kept-locks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "machined/confined/login1/locks/test-pair.h"

namespace talos::login1 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Pipe {
  kj::AutoCloseFd reading, writing;
  Pipe() {
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
    reading = kj::AutoCloseFd(ends[0]);
    writing = kj::AutoCloseFd(ends[1]);
  }
  bool ended() const {
    char byte;
    return read(reading, &byte, 1) == 0;
  }
};

Inhibitor lockOf(kj::StringPtr who) {
  return Inhibitor{.what = kj::str("shutdown"),
                   .who = kj::str(who),
                   .why = kj::str("it ends pods"),
                   .mode = kj::str("delay"),
                   .uid = 0,
                   .pid = 812,
                   .since = kj::UNIX_EPOCH + 1'800'000'000 * kj::SECONDS};
}

kj::AutoCloseFd duplicate(int fd) {
  int copy;
  KJ_SYSCALL(copy = fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return kj::AutoCloseFd(copy);
}

struct KeptLocksTest : public testing::Test {
  ~KeptLocksTest() noexcept override {}
  TestPair pair;

  // A start of login1.
  kj::Own<KeptLocks> start() {
    return kj::heap<KeptLocks>(duplicate(pair.keeping), duplicate(pair.kept));
  }
  std::vector<std::string> holders() {
    std::vector<std::string> names;
    for (auto& each : start()->restore()) names.push_back(each.lock.who.cStr());
    return names;
  }
  void send(kj::ArrayPtr<const kj::byte> bytes, int fd = -1) {
    struct iovec io = {const_cast<kj::byte*>(bytes.begin()), bytes.size()};
    struct msghdr message = {};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (fd >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      auto* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int));
      memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    KJ_SYSCALL(sendmsg(pair.keeping, &message, MSG_NOSIGNAL));
  }
};

// Catches: a lock that the next start misses or changes; a pipe that ends although its holder
// lives; a pipe that does not end after its holder.
TEST_F(KeptLocksTest, AreThereForEachStart) {
  EXPECT_THAT(holders(), IsEmpty());
  Pipe pipe;
  auto lock = lockOf("kubelet");
  auto all = kj::arr(KeptLocks::Reference{&lock, pipe.reading});
  start()->replace(all);
  pipe.reading = nullptr;
  for (unsigned i = 0; i < 3; ++i) EXPECT_THAT(holders(), ElementsAre("kubelet")) << i;

  auto restored = start()->restore();
  auto& is = restored[0].lock;
  EXPECT_EQ(is.what, "shutdown");
  EXPECT_EQ(is.why, "it ends pods");
  EXPECT_EQ(is.mode, "delay");
  EXPECT_EQ(is.uid, 0u);
  EXPECT_EQ(is.pid, 812u);
  EXPECT_EQ(is.since, lock.since);
  char byte;
  EXPECT_EQ(read(restored[0].pipe, &byte, 1), -1) << "the holder has its end";
  pipe.writing = nullptr;
  EXPECT_EQ(read(restored[0].pipe, &byte, 1), 0);
  start()->replace(nullptr);
  EXPECT_THAT(holders(), IsEmpty());
}

// Catches: a crash between sending the new message and removing the previous one, after which the
// old state returns, or pipes stay open for ever.
TEST_F(KeptLocksTest, NewestOfTwoHeldMessagesIsRestored) {
  Pipe first, second;
  auto lock = lockOf("first");
  const Inhibitor* one[] = {&lock};
  send(encodeLocks(one), first.reading);
  send(nullptr);
  lock = lockOf("second");
  send(encodeLocks(one), second.reading);
  first.writing = nullptr;
  EXPECT_THAT(holders(), ElementsAre("second"));
  EXPECT_THAT(holders(), ElementsAre("second"));
}

// Catches: more locks than fit.
TEST_F(KeptLocksTest, AsManyAsThereCanBe) {
  Pipe pipe;
  auto longest = kj::str(kj::repeat('x', kMostInhibitorText));
  auto lock = lockOf(longest);
  lock.why = kj::str(longest);
  kj::Vector<KeptLocks::Reference> all;
  while (all.size() < kMostInhibitors) all.add(KeptLocks::Reference{&lock, pipe.reading});
  auto login1 = start();
  for (unsigned i = 0; i < 3; ++i) login1->replace(all);
  EXPECT_EQ(holders().size(), kMostInhibitors);
}

// Catches: a login1 that exits at each start because of a message that an earlier login1 left, or
// that reads a descriptor which never ends.
TEST_F(KeptLocksTest, WhatIsDamagedIsRemoved) {
  Pipe pipe;
  auto lock = lockOf("kubelet");
  const Inhibitor* one[] = {&lock};
  auto good = encodeLocks(one);
  auto isRefused = [&](kj::ArrayPtr<const kj::byte> bytes, int fd) {
    send(bytes, fd);
    EXPECT_THAT(holders(), IsEmpty());
    char byte;
    EXPECT_EQ(recv(pair.kept, &byte, 1, MSG_DONTWAIT | MSG_PEEK), -1) << "it is still there";
  };
  isRefused(good.slice(0, good.size() - 1), pipe.reading);
  isRefused(good, -1);                        // a lock without a pipe
  isRefused(good.slice(0, 1), pipe.reading);  // a pipe without a lock
  isRefused(good, pipe.writing);              // the wrong end
  isRefused(good, pair.kept);                 // another descriptor
  isRefused("\2"_kj.asBytes(), -1);           // another format
  isRefused(kj::heapArray<kj::byte>(kMostKeptBytes + 1), -1);
  lock.since = kj::UNIX_EPOCH;
  send(encodeLocks(one), pipe.reading);
  EXPECT_THAT(holders(), ElementsAre("kubelet"));
}

}  // namespace
}  // namespace talos::login1
