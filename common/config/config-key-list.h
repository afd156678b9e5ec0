// Keys of the machine config that a system knows, as a list in its installer image, and the keys of
// a config that are not in such a list: a system that does not know a key refuses the config. Pure.
//
// One path in a line, sorted: "machine.network.interfaces[].bond.mode". Elements of a list have the
// path of the list followed by "[]", and the values of a map have the path of the map followed by
// "{}". Kinds of documents beside the main one are lines as well: a system that does not know one
// carries out nothing of it.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::config {

constexpr size_t kMostKeyListBytes = 256u << 10;

// Returns the list of this system.
kj::String keyList();
// Returns the paths of the keys that this config sets and the list lacks, in the order of the
// schema: only the topmost key of a missing mapping, and no keys that have their default value.
// Throws InvalidArgument if `list` is not such a list.
kj::Vector<kj::String> keysNotIn(kj::StringPtr list, Config::Reader config);

}  // namespace talos::config
