// Reads a Node object.
#pragma once

#include "common/kube/json.h"

namespace talos::kube {

// By the label of either age.
bool isControlPlane(const Json& node);
// Its addresses of type InternalIP, so many at most.
kj::Vector<kj::String> internalAddressesOf(const Json& node, size_t most);

}  // namespace talos::kube
