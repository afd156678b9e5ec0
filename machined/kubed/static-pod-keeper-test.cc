#include "machined/kubed/static-pod-keeper.h"

#include <gtest/gtest.h>

#include "common/kube/json-yaml.h"

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
      kube::writeYaml(found.status, 4).cStr());
  pod["metadata"]["annotations"]["kubernetes.io/config.source"] = "api";
  EXPECT_TRUE(staticPodStatus(pod) == nullptr);
  pod["metadata"].erase("annotations");
  EXPECT_TRUE(staticPodStatus(pod) == nullptr);
}

// Catches: an API server that has crashed and is shown as ready.
TEST(StaticPodStatuses, AreUnknownWhileNobodyAnswers) {
  auto status = kube::readJson(
      R"({"conditions": [{"type": "Initialized", "status": "True"},
                         {"type": "Ready", "status": "True"}]})"_kj,
      "the test");
  setUnknown(status);
  EXPECT_STREQ(
      "conditions:\n"
      "    - type: Initialized\n"
      "      status: \"True\"\n"
      "    - type: Ready\n"
      "      status: Unknown\n",
      kube::writeYaml(status, 4).cStr());
  for (auto text : {"{}", R"({"conditions": 1})", "null"}) {
    auto odd = kube::readJson(kj::StringPtr(text), "the test");
    setUnknown(odd);
  }
}

}  // namespace
}  // namespace talos::kubed
