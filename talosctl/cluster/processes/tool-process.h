// Runs a program of the build root's tree, or of the host, for a cluster's supervisor: the program
// ends with the supervisor (PR_SET_PDEATHSIG), which watches its pidfd.
#pragma once

#include <kj/async-unix.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "talosctl/cluster/processes/child-process.h"

namespace talos::cluster {

// Returns the command line of a program with this path: in `root`, otherwise in this build's root,
// otherwise on the host. NotFound names the places searched, and the remedy.
kj::Vector<kj::String> findTool(kj::StringPtr root, kj::StringPtr path);

struct ToolSettings {
  int input = -1;                               // standard input; -1: /dev/null
  int errors = 2;                               // standard error; output goes to /dev/null
  kj::ArrayPtr<const int> inherited = nullptr;  // further descriptors, under their own numbers
  int network = -1;        // network namespace to enter; -1: that of the caller
  bool ownMounts = false;  // a mount namespace whose mounts do not propagate
};

class ToolProcess {
 public:
  ToolProcess(kj::UnixEventPort& port, kj::ArrayPtr<kj::String> command,
              const ToolSettings& settings);
  // The destructor ends the program as that of ChildProcess does.
  KJ_DISALLOW_COPY_AND_MOVE(ToolProcess);

  int pid() const { return process->pid(); }
  // Resolves to nullptr for status 0, otherwise to "exited with status 1" or "killed by signal 9".
  // To be called once.
  kj::Promise<kj::Maybe<kj::String>> onExit();

 private:
  kj::Own<ChildProcess> process;

  static kj::Own<ChildProcess> start(kj::UnixEventPort& port, kj::ArrayPtr<kj::String> command,
                                     const ToolSettings& settings);
};

}  // namespace talos::cluster
