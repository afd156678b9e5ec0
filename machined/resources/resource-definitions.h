// The namespaces and types of the registry as resources of the namespace `meta`, as in Talos.
#pragma once

#include <kj/function.h>

#include "common/wire/resource-registry.h"
#include "rpc/resources.capnp.h"

namespace talos::machined {

// Calls `define` for each, with namespace, type, id and spec set.
void describeTypes(const Registry& registry, kj::FunctionParam<void(rpc::Resource::Reader)> define);

}  // namespace talos::machined
