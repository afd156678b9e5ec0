#include "kubed/nodes/static-pod-reconciler.h"

#include <gtest/gtest.h>

#include "common/kube/json-yaml.h"
#include "kubed/nodes/test-control-plane.h"

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

// kubed with the statuses of an earlier run, and an API server that refuses everything.
struct UnansweredPods : public TestControlPlane {
  ModelKind& statuses = machined.kind<rpc::StaticPodStatusSpec>();

  UnansweredPods() {
    machined.kind<rpc::NodeSpecSpec>().set<rpc::NodeSpecSpec>(
        "node", "machined", [](auto spec) { spec.setNodename("n"); });
    model.instead = [](auto&) -> kj::Maybe<kube::ModelKube::Reply> {
      return kube::ModelKube::Reply{403, R"({"kind":"Status","message":"no"})", ""};
    };
  }
  ~UnansweredPods() noexcept override {}
  void ready(kj::StringPtr id) {
    statuses.set<rpc::StaticPodStatusSpec>(id, kOwner, [](auto spec) {
      spec.setStatus("conditions:\n    - type: Ready\n      status: \"True\"\n");
    });
  }
  kj::StringPtr statusOf(kj::StringPtr id) {
    KJ_IF_MAYBE (found, statuses.find(id)) {
      return ResourceOf<rpc::StaticPodStatusSpec>(*found).getStatus();
    }
    return "none";
  }
};

constexpr kj::StringPtr kUnknownStatus =
    "conditions:\n    - type: Ready\n      status: Unknown\n"_kj;

// Catches: a kubed that reports no pods after a restart without an API server.
TEST_F(UnansweredPods, StayKnownWhenThisProgramBeginsAnew) {
  ready("kube-system/a");
  StaticPodReconciler reconciler(begin());
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  EXPECT_TRUE(eventually([&] { return statusOf("kube-system/a") == kUnknownStatus; }))
      << statusOf("kube-system/a").cStr();
  EXPECT_EQ(statuses.destroys, 0u);
}

// Catches: the definition of an ending API server that waits for ever for the status that only this
// API server could withdraw; a status that is removed with the definition of another pod.
TEST_F(UnansweredPods, WhoseDefinitionIsTornDownAreGone) {
  ready("kube-system/kube-apiserver-n");
  ready("kube-system/kube-scheduler-n");
  auto& definitions = machined.kind<rpc::StaticPodSpec>();
  auto define = [&](kj::StringPtr id) {
    definitions.set<rpc::StaticPodSpec>(id, "machined", [](auto spec) { spec.setPod("{}"); });
  };
  define("kube-apiserver");
  define("kube-scheduler");
  StaticPodReconciler reconciler(begin());
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  EXPECT_TRUE(
      eventually([&] { return statusOf("kube-system/kube-apiserver-n") == kUnknownStatus; }));
  EXPECT_EQ(statuses.destroys, 0u);
  definitions.store.teardown("", definitions.type, "kube-apiserver", "machined");
  EXPECT_TRUE(eventually([&] { return statusOf("kube-system/kube-apiserver-n") == "none"; }));
  EXPECT_EQ(statusOf("kube-system/kube-scheduler-n"), kUnknownStatus);
}

}  // namespace
}  // namespace talos::kubed
