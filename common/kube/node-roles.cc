#include "common/kube/node-roles.h"

namespace talos::kube {

bool kubeletMayLabel(kj::StringPtr label) {
  auto slash = label.findFirst('/').orDefault(0);
  auto domain = kj::str(label.slice(0, slash));
  auto isOrBelow = [&](kj::StringPtr parent) {
    return domain == parent || domain.endsWith(kj::str(".", parent));
  };
  if (!isOrBelow("kubernetes.io") && !isOrBelow("k8s.io")) return true;
  return isOrBelow("node.kubernetes.io") || isOrBelow("kubelet.kubernetes.io") ||
         label == "topology.kubernetes.io/zone" || label == "topology.kubernetes.io/region";
}

}  // namespace talos::kube
