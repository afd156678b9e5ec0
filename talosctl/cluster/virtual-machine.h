// One QEMU process: started with PR_SET_PDEATHSIG, so that it never outlives its supervisor, and
// watched through its pidfd.
#pragma once

#include <kj/async-unix.h>
#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "talosctl/cluster/host-probe.h"

namespace talos::cluster {

class Guest {
 public:
  // `tap` is passed to it under its own number. Output of QEMU itself goes to `logFd`.
  Guest(kj::UnixEventPort& port, const Qemu& qemu, kj::ArrayPtr<const kj::String> arguments,
        int tapFd, int logFd);
  KJ_DISALLOW_COPY_AND_MOVE(Guest);

  int pid() const { return processId; }
  // "exited with status 0", "killed by signal 9". Once.
  kj::Promise<kj::String> onExit();
  void kill(int signal);

 private:
  kj::UnixEventPort& port;
  int processId = 0;
  kj::AutoCloseFd pidfd;
};

}  // namespace talos::cluster
