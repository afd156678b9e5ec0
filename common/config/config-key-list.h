// The keys of the machine config that a system knows, as a list in its installer image, and which
// keys of a config are not in such a list: a system that does not know a key refuses the config.
// Pure.
//
// One path in a line, sorted: "machine.network.interfaces[].bond.mode". Elements of a list have the
// path of the list with "[]" behind it, and the values of a map that of the map with "{}".
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::config {

constexpr size_t kMostKeyListBytes = 256u << 10;

// Of this system.
kj::String keyList();
// The paths of the keys that this config sets, each of the topmost mapping that the list lacks
// alone, in the order of the schema; keys that are left at their defaults are not among them.
// InvalidArgument if that is no list.
kj::Vector<kj::String> keysNotIn(kj::StringPtr list, Config::Reader config);

}  // namespace talos::config
