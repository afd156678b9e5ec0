// Checks that code makes its files durable, which the files themselves do not show; for tests.
#pragma once

#include <errno.h>
#include <kj/debug.h>
#include <kj/function.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <thread>

namespace talos {

// Calls `work` with every fsync(2) failing with EIO, and returns the error that it throws; empty if
// it did not notice, which means that it did not call fsync(2). The filter of system calls is for
// one thread, and ends with it.
inline kj::String failureWithoutFsync(kj::Function<void()> work) {
  kj::String failure;
  std::thread thread([&] {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog program{sizeof filter / sizeof *filter, filter};
    auto thrown = kj::runCatchingExceptions([&] {
      KJ_SYSCALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
      KJ_SYSCALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
      work();
    });
    KJ_IF_MAYBE (e, thrown) failure = kj::str(e->getDescription());
  });
  thread.join();
  return failure;
}

}  // namespace talos
