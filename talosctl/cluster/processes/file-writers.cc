#include "talosctl/cluster/processes/file-writers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "talosctl/cluster/processes/monotonic-clock.h"

namespace talos::cluster {
namespace {

constexpr size_t kMostInfo = 64u << 10;

// Parses "flags:\t0100002" of /proc/PID/fdinfo/N: octal flags of open(2).
bool isForWriting(kj::StringPtr info) {
  auto flags = strstr(info.cStr(), "flags:");
  if (flags == nullptr) return false;
  auto mode = strtol(flags + strlen("flags:"), nullptr, 8) & O_ACCMODE;
  return mode == O_WRONLY || mode == O_RDWR;
}

bool writesBelow(kj::StringPtr process, kj::StringPtr folder) {
  for (auto& number : namesIn(kj::str(process, "/fd"))) {
    char target[4096];
    auto length = readlink(kj::str(process, "/fd/", number).cStr(), target, sizeof target);
    if (length <= static_cast<ssize_t>(folder.size())) continue;
    auto path = kj::heapString(target, static_cast<size_t>(length));
    if (!path.startsWith(folder) || path[folder.size()] != '/') continue;
    auto info = tryReadFile(kj::str(process, "/fdinfo/", number), kMostInfo);
    if (isForWriting(info.orDefault(kj::str()))) return true;
  }
  return false;
}

// Waits until one of the processes ends, or until the deadline.
void waitForOne(kj::ArrayPtr<const int> pids, int64_t until) {
  int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pids[0], 0));
  if (pidfd < 0) return;  // ended just now
  KJ_DEFER(close(pidfd));
  struct pollfd p = {pidfd, POLLIN, 0};
  poll(&p, 1, static_cast<int>(kj::max(until - monotonicMilliseconds(), int64_t(0))));
}

}  // namespace

kj::Vector<int> fileWriters(kj::StringPtr folder) {
  auto real = realpath(folder.cStr(), nullptr);
  if (real == nullptr) return {};
  KJ_DEFER(free(real));
  kj::Vector<int> pids;
  for (auto& name : namesIn("/proc")) {
    KJ_IF_MAYBE (pid, name.tryParseAs<int>()) {
      if (*pid == getpid()) continue;
      // A process may have ended, and a process of another user is hidden: neither is a failure.
      bool writes = false;
      (void)kj::runCatchingExceptions(
          [&]() { writes = writesBelow(kj::str("/proc/", name), real); });
      if (writes) pids.add(*pid);
    }
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

void requireNoFileWriters(kj::StringPtr folder, kj::Duration deadline) {
  auto until = monotonicMilliseconds() + deadline / kj::MILLISECONDS;
  for (;;) {
    auto pids = fileWriters(folder);
    if (pids.empty()) return;
    if (monotonicMilliseconds() >= until) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("processes still write to ", folder, ": ", kj::strArray(pids, ", "),
                   "; end them, then repeat"));
    }
    waitForOne(pids, until);
  }
}

}  // namespace talos::cluster
