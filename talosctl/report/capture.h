// Runs commands of this program in this process and captures their output: a file of a report has
// the same content that a user would have seen on a terminal.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Access to the nodes, from the persistent flags.
struct Access {
  kj::String talosconfig, context;  // an empty context means the current context
  kj::Vector<kj::String> endpoints;
  // Reads the flags of this call.
  static Access of(Invocation& call);
};

struct Captured {
  int status = 0;
  kj::String out, err;
};

// Runs a command. `arguments`: the command and its flags. Output beyond 32 MiB is truncated, with a
// note: the log buffers of a node hold 1 MiB each, a process table less. At `deadline` the command
// is cancelled; its output so far is kept, the status is 1 and `err` has a line about it. Never
// rejects.
kj::Promise<Captured> capture(Invocation& call, const Access& access, kj::StringPtr node,
                              kj::ArrayPtr<const kj::StringPtr> arguments, kj::Duration deadline);

}  // namespace talos::talosctl
