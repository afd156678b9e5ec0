#include "talosctl/convert-k8s/convert-objects.h"

#include <gtest/gtest.h>

namespace talos::talosctl {
namespace {

kube::Json podOf(kj::StringPtr owner, bool ours) {
  kube::Json pod{{"metadata", {{"ownerReferences", kube::Json::array()}}}};
  pod["metadata"]["ownerReferences"].push_back({{"kind", owner.cStr()}});
  if (ours) pod["metadata"]["annotations"]["talos.dev/secrets-version"] = "1";
  return pod;
}

// Catches: a pod of the old control plane, or a mirror of a foreign static pod (a checkpoint), that
// counts as a pod of the new control plane.
TEST(ConvertObjects, OnlyMirrorsOfOurPodsAreOurs) {
  EXPECT_TRUE(isOwnStaticPod(podOf("Node", true)));
  EXPECT_FALSE(isOwnStaticPod(podOf("Node", false)));
  EXPECT_FALSE(isOwnStaticPod(podOf("DaemonSet", true)));
  EXPECT_FALSE(isOwnStaticPod(kube::Json::object()));
  EXPECT_TRUE(isOfDaemonSet(podOf("DaemonSet", true)));
  EXPECT_FALSE(isOfDaemonSet(podOf("Node", true)));
}

}  // namespace
}  // namespace talos::talosctl
