#include "talosctl/cluster/nodes/cluster-state.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/user/user-file.h"
#include "common/yaml/yaml-codec.h"

namespace talos::cluster {
namespace {

// A POSIX record lock shows the pid of its holder, and ends with the holder after any kind of exit.
struct flock wholeFile(short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool waitForExit(int pidfd, int milliseconds) {
  struct pollfd p = {pidfd, POLLIN, 0};
  int n;
  do {
    n = poll(&p, 1, milliseconds);
  } while (n < 0 && errno == EINTR);
  return n > 0;
}

}  // namespace

StateDirectory::StateDirectory(kj::StringPtr base, kj::StringPtr name, kj::StringPtr flags)
    : directory(kj::str(base, "/", name)), flags(kj::str(flags)) {}

bool StateDirectory::exists() const {
  return access(directory.cStr(), F_OK) == 0;
}

void StateDirectory::make() const {
  makeUserFolders(directory, 0700);
  makeDirectories(directory, 0700);
}

kj::Own<capnp::MallocMessageBuilder> StateDirectory::load() const {
  if (!exists()) {
    fail(ErrorKind::kNotFound,
         kj::str("no cluster in ", directory, "; create one with ", command("create")));
  }
  auto name = file("state.yaml");
  auto text = readFile(name);
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  Problems problems;
  codec::ReadOptions options;
  options.file = name;
  if (!codec::readYaml(text, message->initRoot<rpc::LocalCluster>(), problems, options)) {
    fail(ErrorKind::kInvalidArgument, render(problems));
  }
  return message;
}

void StateDirectory::save(rpc::LocalCluster::Reader cluster) const {
  writeFileAtomically(file("state.yaml"), codec::writeYaml(cluster), 0600);
}

kj::Maybe<int> StateDirectory::supervisor() const {
  int raw = open(file("lock").cStr(), O_RDWR | O_CLOEXEC);
  if (raw < 0) return nullptr;
  kj::AutoCloseFd fd(raw);
  auto lock = wholeFile(F_WRLCK);
  KJ_SYSCALL(fcntl(fd, F_GETLK, &lock), file("lock"));
  if (lock.l_type == F_UNLCK) return nullptr;
  return lock.l_pid;
}

kj::AutoCloseFd StateDirectory::lock() const {
  int raw;
  KJ_SYSCALL(raw = open(file("lock").cStr(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), file("lock"));
  kj::AutoCloseFd fd(raw);
  auto lock = wholeFile(F_WRLCK);
  if (fcntl(fd, F_SETLK, &lock) < 0) {
    fail(ErrorKind::kConflict, kj::str("the cluster in ", directory, " is already running"));
  }
  return fd;
}

bool StateDirectory::stopSupervisor() const {
  KJ_IF_MAYBE (pid, supervisor()) {
    int raw = syscall(SYS_pidfd_open, *pid, 0);
    if (raw < 0) return false;  // ended just now
    kj::AutoCloseFd pidfd(raw);
    KJ_IF_MAYBE (still, supervisor()) {
      if (*still != *pid) return false;
    } else {
      return false;
    }
    syscall(SYS_pidfd_send_signal, pidfd.get(), SIGTERM, nullptr, 0);
    if (!waitForExit(pidfd, 10000)) {
      syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
      if (!waitForExit(pidfd, 5000)) {
        fail(ErrorKind::kDeadlineExceeded,
             kj::str("the supervisor of the cluster, pid ", *pid,
                     ", did not end within 5 s of SIGKILL; nothing was removed"));
      }
    }
    return true;
  }
  return false;
}

}  // namespace talos::cluster
