#include "common/kube/node-roles.h"

namespace talos::kube {

namespace {

// kubeletLabels in pkg/kubelet/apis/well_known_labels.go of Kubernetes, without reserved names.
constexpr kj::StringPtr kLabelsOfKubelets[] = {
    "topology.kubernetes.io/zone"_kj,
    "topology.kubernetes.io/region"_kj,
    "failure-domain.beta.kubernetes.io/zone"_kj,
    "failure-domain.beta.kubernetes.io/region"_kj,
    "beta.kubernetes.io/instance-type"_kj,
};

}  // namespace

bool kubeletMayLabel(kj::StringPtr label) {
  auto slash = label.findFirst('/').orDefault(0);
  auto domain = kj::str(label.slice(0, slash));
  auto isOrBelow = [&](kj::StringPtr parent) {
    return domain == parent || domain.endsWith(kj::str(".", parent));
  };
  if (!isOrBelow("kubernetes.io") && !isOrBelow("k8s.io")) return true;
  for (auto known : kLabelsOfKubelets) {
    if (label == known) return true;
  }
  return isOrBelow("node.kubernetes.io") || isOrBelow("kubelet.kubernetes.io");
}

}  // namespace talos::kube
