// The program that a developer has put in place of a daemon's own (`talosctl debug replace`), on a
// node in a container. No call of a node's API does that: the host's root writes the file.
#pragma once

#include <kj/string.h>

#include "common/base/node-layout.h"

namespace talos::machined {

// Its path, looked up at each start of the service. None: there is none, or it is not root's alone.
kj::Maybe<kj::String> replacedProgram(kj::StringPtr id, kj::StringPtr folder = kReplacedFolder);

// The arguments with the other program in place of `program`, also where they name it for the rules
// about files (confine-options.h).
kj::Array<kj::String> withProgram(kj::ArrayPtr<const kj::String> argv, kj::StringPtr program,
                                  kj::StringPtr other);

}  // namespace talos::machined
