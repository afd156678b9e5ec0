#include "common/kube/node-object.h"

#include "common/kube/node-roles.h"

namespace talos::kube {

bool isControlPlane(const Json& node) {
  for (auto label : kControlPlaneRoles) {
    if (find(node, {"metadata", "labels", label}) != nullptr) return true;
  }
  return false;
}

kj::Vector<kj::String> internalAddressesOf(const Json& node, size_t most) {
  kj::Vector<kj::String> addresses;
  for (auto address : itemsAt(node, {"status", "addresses"})) {
    if (addresses.size() == most) break;
    if (textAt(*address, {"type"}) != "InternalIP") continue;
    addresses.add(kj::str(textAt(*address, {"address"})));
  }
  return addresses;
}

}  // namespace talos::kube
