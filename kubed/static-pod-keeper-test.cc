#include "kubed/static-pod-keeper.h"

#include <gtest/gtest.h>

namespace talos::kubed {
namespace {

// Catches: pods of a workload that are shown as the control plane's.
TEST(StaticPodStatuses, AreOfPodsThatTheKubeletHasFromFiles) {
  auto pod = kube::readJson(
      R"({"metadata": {"name": "kube-apiserver-master-1", "namespace": "kube-system",
          "annotations": {"kubernetes.io/config.source": "file"}},
          "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})"_kj,
      "the test");
  auto found = KJ_ASSERT_NONNULL(staticPodStatus(pod));
  EXPECT_STREQ("kube-system/kube-apiserver-master-1", found.id.cStr());
  EXPECT_STREQ(
      "phase: Running\n"
      "conditions:\n"
      "    - type: Ready\n"
      "      status: \"True\"\n",
      found.status.cStr());
  pod["metadata"]["annotations"]["kubernetes.io/config.source"] = "api";
  EXPECT_TRUE(staticPodStatus(pod) == nullptr);
  pod["metadata"].erase("annotations");
  EXPECT_TRUE(staticPodStatus(pod) == nullptr);
}

}  // namespace
}  // namespace talos::kubed
