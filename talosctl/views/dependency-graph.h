// Draws the graph of controllers and resources as DOT, the language of Graphviz. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/machine.capnp.h"

namespace talos::talosctl {

struct GraphResources {
  kj::String type;
  kj::Vector<kj::String> ids;
};

// Returns true if a controller or a daemon reads or writes the type.
bool isInGraph(rpc::Machine::DependenciesResults::Reader all, kj::StringPtr type);

// Draws controllers as boxes, daemons as boxes with round corners, and types of resources as notes
// called "<namespace>:<type>". `resources`: types that are drawn with each of their resources.
kj::String drawDependencies(rpc::Machine::DependenciesResults::Reader all,
                            kj::ArrayPtr<const GraphResources> resources);

}  // namespace talos::talosctl
