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
  kj::String path;  // the deepest value that differs: machine.network.interfaces[0].cidr
  bool live;
};

// In the schema's order; empty for two documents with the same meaning. Mappings with free keys are
// compared by key, in any order, and an added or removed entry differs in every key that it sets;
// lists item by item, and a list of another length is one change.
kj::Vector<Change> changes(Config::Reader from, Config::Reader to);

}  // namespace talos::config
