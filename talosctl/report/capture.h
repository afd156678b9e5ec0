// Runs commands of this program in this process and captures their output: a file of a report is
// what its reader would have seen on a terminal.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// How to reach the nodes, from the persistent flags.
struct Access {
  kj::String talosconfig, context;  // an empty context: the current one
  kj::Vector<kj::String> endpoints;
  // From the flags of this call.
  static Access of(Invocation& call);
};

struct Captured {
  int status = 0;
  kj::String out, err;
};

// `arguments`: the command and its flags. Output beyond 32 MiB is truncated, and says so: the log
// buffers of a node hold 1 MiB each, a process table less. At `deadline` the command is cancelled;
// its output so far stays, the status is 1 and `err` has a line about it. Never rejects.
kj::Promise<Captured> capture(Invocation& call, const Access& access, kj::StringPtr node,
                              kj::ArrayPtr<const kj::StringPtr> arguments, kj::Duration deadline);

}  // namespace talos::talosctl
