// Reads a Node object.
#pragma once

#include "common/kube/json.h"

namespace talos::kube {

// Decides by the label of either age.
bool isControlPlane(const Json& node);
// Returns the node's addresses of type InternalIP, at most so many.
kj::Vector<kj::String> internalAddressesOf(const Json& node, size_t most);

}  // namespace talos::kube
