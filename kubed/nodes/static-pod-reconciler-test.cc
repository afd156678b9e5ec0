#include "kubed/nodes/static-pod-reconciler.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/kube/json-yaml.h"
#include "common/kube/kubeconfig.h"
#include "common/kube/test-kube-server.h"
#include "tests/models/test-machined.h"

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

// Catches: a kubed that reports no pods after a restart without an API server.
TEST(StaticPodStatuses, StayKnownWhenThisProgramBeginsAnew) {
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  ModelMachined machined(io, kKubedUid);
  auto& statuses = machined.kind<rpc::StaticPodStatusSpec>();
  statuses.set<rpc::StaticPodStatusSpec>("kube-system/a", kOwner, [](auto spec) {
    spec.setStatus("conditions:\n    - type: Ready\n      status: \"True\"\n");
  });
  machined.kind<rpc::NodeSpecSpec>().set<rpc::NodeSpecSpec>(
      "node", "machined", [](auto spec) { spec.setNodename("n"); });
  auto kubeconfig = kube::writeKubeconfig({.cluster = "c1",
                                           .server = "https://127.0.0.1:6443",
                                           .authority = "CA",
                                           .user = "u",
                                           .credentials = kube::ClientPair{"CERT", "KEY"},
                                           .context = "c",
                                           .nameSpace = "default"});
  machined.kind<rpc::KubernetesSecretsSpec>().set<rpc::KubernetesSecretsSpec>(
      "k8s-certs", "machined",
      [&](auto spec) { spec.setAdminKubeconfig(kj::StringPtr(kubeconfig)); });
  machined.start();

  kube::ModelKube model(timer);
  model.addUsualKinds();
  model.instead = [](auto&) -> kj::Maybe<kube::ModelKube::Reply> {
    return kube::ModelKube::Reply{403, R"({"kind":"Status","message":"no"})", ""};
  };
  StoreClient store(*io.lowLevelProvider, timer, machined.socket(), kj::str(kOwner));
  Signal changed;
  TlsEndpoint etcd;
  kj::Function<double()> random = [] { return 0.0; };
  auto make = [&](kube::KubeAccess) {
    return kj::heap<kube::KubeClient>(
        timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access());
  };
  KubernetesStoreAdapter adapter(store, etcd, kj::mv(make), changed);
  StaticPodReconciler reconciler(KubedDependencies{
      .timer = timer, .random = random, .store = store, .adapter = adapter, .changed = changed});
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  auto deadline = timer.now() + 20 * kj::SECONDS;
  while (statuses.puts == 0 && statuses.destroys == 0 && timer.now() < deadline) {
    timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
  }
  EXPECT_EQ(statuses.destroys, 0u);
  ResourceOf<rpc::StaticPodStatusSpec> status(KJ_ASSERT_NONNULL(statuses.find("kube-system/a")));
  EXPECT_STREQ("conditions:\n    - type: Ready\n      status: Unknown\n",
               status.getStatus().cStr());
}

}  // namespace
}  // namespace talos::kubed
