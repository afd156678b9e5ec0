// The orders of a developer for the next start of a daemon, on a node of a local cluster: another
// program in place of the daemon's (`talosctl debug replace`), and a stop before the program does
// anything, so that a debugger can be attached. No call of a node's API gives these orders: root on
// the host writes files, or, for a virtual machine, its window (host-window.h).
#pragma once

#include <kj/string.h>

#include "common/base/node-layout.h"

namespace talos::machined {

struct DebugOrder {
  kj::Maybe<kj::String> program;  // a path; nullptr: the service's program
  bool stop = false;
};
// The option of the exec wrapper for the stop (confine-options.h).
constexpr kj::StringPtr kStopFirst = "--stop=first"_kj;

// Reads the files <id> and <id>.stop of the folder. A file that others than root can change counts
// as absent.
DebugOrder debugOrder(kj::StringPtr id, kj::StringPtr folder = kReplacedFolder);

// Returns the arguments with the other program in place of `program`, also where they name it for
// the rules about files (confine-options.h).
kj::Array<kj::String> withProgram(kj::ArrayPtr<const kj::String> argv, kj::StringPtr program,
                                  kj::StringPtr other);

}  // namespace talos::machined
