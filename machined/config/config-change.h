// Compares two machine configs, and finds the changes that need a reboot. Pure.
//
// The schema says which changes take effect at once ($live in rpc/config.capnp): a change is live
// when its field or any field above it is.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::config {

struct Change {
  kj::String path;  // path of the deepest value that differs: machine.network.interfaces[0].cidr
  bool live;
};

// Returns the changes in the schema's order; empty for two documents with the same meaning.
// Mappings with free keys are compared by key, in any order; an added or removed entry is a change
// of every key that it sets. Lists are compared item by item; lists of different lengths are one
// change.
kj::Vector<Change> changes(Config::Reader from, Config::Reader to);

}  // namespace talos::config
