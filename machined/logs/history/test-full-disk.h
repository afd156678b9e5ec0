// For tests: a disk that is full, as far as this process goes.
#pragma once

#include <kj/debug.h>
#include <signal.h>
#include <sys/resource.h>

namespace talos::machined {

// No file can be written to beyond so many bytes; what fits is written.
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
