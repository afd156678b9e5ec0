// A worker's object, by the kubelet's certificate, against models of machined and of the API
// server.
#include "kubed/nodes/node-reconciler.h"

#include <gtest/gtest.h>

#include "common/kube/kubeconfig.h"
#include "common/kube/test-kube-server.h"
#include "common/wire/test-machined.h"
#include "kubed/nodes/kubelet-access.h"

namespace talos::kubed {
namespace {

using kube::Json;

constexpr kj::StringPtr kNode = "/api/v1/nodes/w"_kj;

struct WorkerNode : public testing::Test {
  ~WorkerNode() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io};
  kube::ModelKube model{timer};
  kj::Function<double()> random = [] { return 0.0; };
  unsigned made = 0;  // clients

  WorkerNode() {
    model.addUsualKinds();
    Json labels{{"kubernetes.io/hostname", "w"}, {"other", "x"}};
    model.put(kNode, Json{{"metadata", {{"name", "w"}, {"labels", labels}}},
                          {"spec", {{"taints", Json::array()}}}});
  }
  void want(uint64_t version, kj::StringPtr label, kj::StringPtr value, kj::StringPtr taint = "") {
    auto& kind = machined.kind<rpc::NodeSpecSpec>();
    auto fill = [&](auto spec) {
      spec.setNodename("w");
      auto labels = spec.initLabels(1);
      labels[0].setKey(label);
      labels[0].setValue(value);
      if (taint.size() == 0) return;
      auto taints = spec.initTaints(1);
      taints[0].setKey(taint);
      taints[0].setValue(":NoSchedule");
    };
    auto& held = kind.set<rpc::NodeSpecSpec>("node", "machined", version, fill);
    kind.publish(version == 1 ? rpc::Change::Event::CREATED : rpc::Change::Event::UPDATED,
                 held.get());
  }
  void offerCertificate() {
    auto kubeconfig = kube::writeKubeconfig({.cluster = "local",
                                             .server = "https://127.0.0.1:6443",
                                             .authority = "CA",
                                             .user = "kubelet",
                                             .credentials = kube::ClientPair{"CERT", "KEY"},
                                             .context = "local"});
    auto& kind = machined.kind<rpc::KubeletClientSpec>();
    auto& held = kind.set<rpc::KubeletClientSpec>("kubelet", "machined", 1, [&](auto spec) {
      spec.setKubeconfig(kj::StringPtr(kubeconfig));
    });
    kind.publish(rpc::Change::Event::CREATED, held.get());
  }
  std::string label(kj::StringPtr key) {
    return kube::textAt(KJ_ASSERT_NONNULL(model.find(kNode)), {"metadata", "labels", key}).cStr();
  }
  std::string reported() {
    KJ_IF_MAYBE (found, machined.kind<rpc::NodeStatusSpec>().resources.find("node")) {
      ResourceOf<rpc::NodeStatusSpec> status(found->get());
      return kj::str(status.getApplied() ? "applied" : "", status.getMessage()).cStr();
    }
    return "";
  }
  bool eventually(kj::Function<bool()> so) {
    auto deadline = timer.now() + 20 * kj::SECONDS;
    while (!so() && timer.now() < deadline) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return so();
  }
};

// Catches: labels that a worker has only from its registration; a patch of taints, which would be
// refused with all the rest; a taint that is silently not there.
TEST_F(WorkerNode, HasItsLabelsAndSaysWhatItMayNot) {
  want(1, "disk", "slow", "gpu");
  machined.start();
  StoreClient store(*io.lowLevelProvider, timer, machined.socket(), kj::str(kOwner));
  KubeletAccess access(store, [&](kube::KubeAccess) {
    ++made;
    return kj::heap<kube::KubeClient>(
        timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access());
  });
  WorkerStoreAdapter adapter(store, access);
  NodeReconciler reconciler({.timer = timer,
                             .random = random,
                             .store = store,
                             .adapter = adapter,
                             .changed = access.changes()});
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  EXPECT_TRUE(eventually([&] {
    return reported() == "waiting for the certificate of the kubelet";
  })) << reported();
  EXPECT_EQ(made, 0u);

  offerCertificate();
  EXPECT_TRUE(eventually([&] { return label("disk") == "slow"; })) << reported();
  EXPECT_EQ(label("other"), "x");
  EXPECT_TRUE(eventually([&] {
    return reported() ==
           "a worker may not change its own taints: kubectl taint --overwrite nodes w "
           "gpu:NoSchedule";
  })) << reported();
  for (auto& asked : model.asked) {
    if (asked.method != "PATCH") continue;
    EXPECT_TRUE(kube::find(asked.body, {"spec"}) == nullptr);
  }

  want(2, "disk", "fast");
  EXPECT_TRUE(eventually([&] { return label("disk") == "fast"; })) << reported();
  EXPECT_TRUE(eventually([&] { return reported() == "applied"; })) << reported();
}

}  // namespace
}  // namespace talos::kubed
