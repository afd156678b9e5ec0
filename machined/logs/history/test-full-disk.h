// For tests: a disk that is full for this process.
#pragma once

#include <kj/debug.h>
#include <signal.h>
#include <sys/resource.h>

namespace talos::machined {

// Limits the size to which this process can write a file; the bytes that fit are written.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler(signal(SIGXFSZ, SIG_IGN)) {
    KJ_SYSCALL(getrlimit(RLIMIT_FSIZE, &before));
    struct rlimit limit = {bytes, before.rlim_max};
    KJ_SYSCALL(setrlimit(RLIMIT_FSIZE, &limit));
  }
  ~FileLimit() noexcept(false) {
    KJ_SYSCALL(setrlimit(RLIMIT_FSIZE, &before));
    signal(SIGXFSZ, handler);
  }
  KJ_DISALLOW_COPY_AND_MOVE(FileLimit);

 private:
  sighandler_t handler;
  struct rlimit before;
};

}  // namespace talos::machined
