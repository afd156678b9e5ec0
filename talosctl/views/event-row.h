// An event of a node as a row of a table. Pure.
#pragma once

#include <kj/string.h>

#include "rpc/machine.capnp.h"

namespace talos::talosctl {

// Returns NODE, ID, TIME (RFC 3339, to the second), EVENT, SOURCE, MESSAGE. nullptr for an event of
// a kind that is not shown.
kj::Maybe<kj::Array<kj::String>> eventRow(kj::StringPtr node, rpc::Event::Reader event);

}  // namespace talos::talosctl
