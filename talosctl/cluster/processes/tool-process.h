// Runs a program of the build root's tree, or of the host, for a cluster's supervisor: it ends with
// the supervisor (PR_SET_PDEATHSIG), which watches its pidfd.
#pragma once

#include <kj/async-unix.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "talosctl/cluster/processes/child-process.h"

namespace talos::cluster {

// The command line of a program with this path: that of `root`, else that of this build's root,
// else the host's own. NotFound names the places searched, and what to do.
kj::Vector<kj::String> findTool(kj::StringPtr root, kj::StringPtr path);

struct ToolSettings {
  int input = -1;                               // standard input; -1: /dev/null
  int errors = 2;                               // standard error; output goes to /dev/null
  kj::ArrayPtr<const int> inherited = nullptr;  // further descriptors, under their own numbers
  int network = -1;                             // the network namespace to enter; -1: the caller's
  bool ownMounts = false;                       // a mount namespace that nothing leaves
};

class ToolProcess {
 public:
  ToolProcess(kj::UnixEventPort& port, kj::ArrayPtr<kj::String> command,
              const ToolSettings& settings);
  // Its end is that of a ChildProcess.
  KJ_DISALLOW_COPY_AND_MOVE(ToolProcess);

  int pid() const { return process->pid(); }
  // None for status 0, else "exited with status 1", "killed by signal 9". Once.
  kj::Promise<kj::Maybe<kj::String>> onExit();

 private:
  kj::Own<ChildProcess> process;

  static kj::Own<ChildProcess> start(kj::UnixEventPort& port, kj::ArrayPtr<kj::String> command,
                                     const ToolSettings& settings);
};

}  // namespace talos::cluster
