// Runs commands of this program in this process and keeps what they print: a file of a report is
// what its reader would have seen himself.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// How the nodes are reached: as the persistent flags say it.
struct Access {
  kj::String talosconfig, context;  // an empty context: the current one
  kj::Vector<kj::String> endpoints;
  // Of this call.
  static Access of(Invocation& call);
};

struct Captured {
  int status = 0;
  kj::String out, err;
};

// `words`: the command and its flags. What is printed beyond 32 MiB is cut, and says so: the rings
// of a node hold 1 MiB each, a process table less. After `deadline` the command is dropped, with
// what it has printed, status 1 and a line about it on `err`. Never rejects.
kj::Promise<Captured> capture(Invocation& call, const Access& access, kj::StringPtr node,
                              kj::ArrayPtr<const kj::StringPtr> words, kj::Duration deadline);

}  // namespace talos::talosctl
