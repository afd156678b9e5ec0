// A worker's object, by the kubelet's certificate, against models of machined and of the API
// server.
#include "kubed/nodes/node-reconciler.h"

#include "kubed/nodes/test-worker.h"

namespace talos::kubed {
namespace {

using kube::Json;

constexpr kj::StringPtr kNodePath = "/api/v1/nodes/w"_kj;

struct WorkerNode : public TestWorker {
  WorkerNode() {
    model.addUsualKinds();
    Json labels{{"kubernetes.io/hostname", "w"}, {"other", "x"}};
    model.put(kNodePath, Json{{"metadata", {{"name", "w"}, {"labels", labels}}},
                              {"spec", {{"taints", Json::array()}}}});
  }
  void want(kj::StringPtr label, kj::StringPtr value, kj::StringPtr taint = "") {
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
    machined.kind<rpc::NodeSpecSpec>().set<rpc::NodeSpecSpec>("node", "machined", fill);
  }
  std::string label(kj::StringPtr key) {
    return kube::textAt(KJ_ASSERT_NONNULL(model.find(kNodePath)), {"metadata", "labels", key})
        .cStr();
  }
  std::string reported() {
    KJ_IF_MAYBE (found, machined.kind<rpc::NodeStatusSpec>().find("node")) {
      ResourceOf<rpc::NodeStatusSpec> status(*found);
      return kj::str(status.getApplied() ? "applied" : "", status.getMessage()).cStr();
    }
    return "";
  }
};

// Catches: labels that a worker gets only at its registration; a patch of taints, which would be
// refused as a whole; a missing taint that is not reported.
TEST_F(WorkerNode, HasItsLabelsAndSaysWhatItMayNot) {
  want("disk", "slow", "gpu");
  machined.start();
  Kubed kubed(*this);
  NodeReconciler reconciler(kubed.deps);
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
           "stored, but not in effect: machine.nodeTaints: a worker may not change its own taints: "
           "kubectl taint --overwrite nodes w gpu:NoSchedule";
  })) << reported();
  for (auto& asked : model.asked) {
    if (asked.method != "PATCH") continue;
    EXPECT_TRUE(kube::find(asked.body, {"spec"}) == nullptr);
  }

  want("disk", "fast");
  EXPECT_TRUE(eventually([&] { return label("disk") == "fast"; })) << reported();
  EXPECT_TRUE(eventually([&] { return reported() == "applied"; })) << reported();
}

// Catches: a node that is called not Ready for ever because the config keeps it out of Kubernetes;
// a status that stays from the time when it was registered.
TEST_F(WorkerNode, HasNoStatusIfItIsNotRegistered) {
  want("disk", "slow");
  machined.start();
  Kubed kubed(*this);
  NodeReconciler reconciler(kubed.deps);
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  EXPECT_TRUE(eventually([&] { return reported() != ""; }));
  machined.kind<rpc::NodeSpecSpec>().set<rpc::NodeSpecSpec>("node", "machined", [](auto spec) {
    spec.setNodename("w");
    spec.setUnregistered(true);
  });
  EXPECT_TRUE(eventually([&] { return reported() == ""; })) << reported();
}

// Catches: a label of another client that is overwritten; a setting that the node leaves out and
// that is said to be in effect; a node that is not Ready because of either; a report that does not
// say which spec it is about.
TEST_F(WorkerNode, SaysWhatIsNotInEffect) {
  Json node = KJ_ASSERT_NONNULL(model.find(kNodePath));
  node["status"] = kube::readJson(R"({"conditions":[{"type":"Ready","status":"True"}]})"_kj, "it");
  model.put(kNodePath, node);
  machined.kind<rpc::NodeSpecSpec>().set<rpc::NodeSpecSpec>("node", "machined", [](auto spec) {
    spec.setNodename("w");
    auto label = spec.initLabels(1)[0];
    label.setKey("other");
    label.setValue("y");
    spec.initLeftOut(1).set(0, "machine.nodeLabels: a is a label of b");
  });
  machined.start();
  Kubed kubed(*this);
  NodeReconciler reconciler(kubed.deps);
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  offerCertificate();
  EXPECT_TRUE(eventually([&] {
    return reported() ==
           "stored, but not in effect: machine.nodeLabels: another client has set the label other; "
           "kubectl label nodes w other- lets the node set it; machine.nodeLabels: a is a label of "
           "b";
  })) << reported();
  EXPECT_EQ(label("other"), "x");
  ResourceOf<rpc::NodeStatusSpec> status(
      KJ_ASSERT_NONNULL(machined.kind<rpc::NodeStatusSpec>().find("node")));
  EXPECT_TRUE(status.getReady());
  EXPECT_EQ(status.getNotApplied().size(), 2u);
  EXPECT_EQ(status.getSpecVersion(), 1u);
}

}  // namespace
}  // namespace talos::kubed
