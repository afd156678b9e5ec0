// The orders of a developer for the next start of a daemon, on a node of a local cluster: another
// program in place of its own (`talosctl debug replace`), and a stop before it does anything, so
// that a debugger can be attached. No call of a node's API gives them: the host's root writes
// files, of a virtual machine through its window (host-window.h).
#pragma once

#include <kj/string.h>

#include "common/base/node-layout.h"

namespace talos::machined {

struct DebugOrder {
  kj::Maybe<kj::String> program;  // a path; none: its own
  bool stop = false;
};
// The option of the exec wrapper for the stop (confine-options.h).
constexpr kj::StringPtr kStopFirst = "--stop=first"_kj;

// The files <id> and <id>.stop of the folder. One that is not root's alone counts as absent.
DebugOrder debugOrder(kj::StringPtr id, kj::StringPtr folder = kReplacedFolder);

// The arguments with the other program in place of `program`, also where they name it for the rules
// about files (confine-options.h).
kj::Array<kj::String> withProgram(kj::ArrayPtr<const kj::String> argv, kj::StringPtr program,
                                  kj::StringPtr other);

}  // namespace talos::machined
