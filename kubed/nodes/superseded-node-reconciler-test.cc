#include "kubed/nodes/superseded-node-reconciler.h"

#include "kubed/nodes/test-control-plane.h"

namespace talos::kubed {
namespace {

struct Renamed : public TestControlPlane {
  pki::CertificateAndKey machineCa = pki::makeAuthority({.organization = "talos"});
  kj::Maybe<SupersededNodeReconciler> reconciler;
  kj::Promise<void> running = nullptr;

  ~Renamed() noexcept override { running = nullptr; }
  Renamed() {
    machined.kind<rpc::NodeSpecSpec>().set<rpc::NodeSpecSpec>(
        "node", "machined", [](auto spec) { spec.setNodename("master-1"); });
    machined.kind<rpc::KubeletSecretsSpec>().set<rpc::KubeletSecretsSpec>(
        "kubelet", "machined",
        [&](auto spec) { spec.setMachineCa(machineCa.certificate.asBytes()); });
    model.addKind(kube::certificateRequests());
    reconciler.emplace(begin());
  }
  void start() { running = KJ_ASSERT_NONNULL(reconciler).run().eagerlyEvaluate(nullptr); }
  static kj::String pathOf(kj::StringPtr name) { return kj::str("/api/v1/nodes/", name); }
  void put(kj::StringPtr name, kj::StringPtr created, bool ready, kj::StringPtr labels = "{}") {
    auto text = kj::str(
        R"({"metadata": {"name": ")", name, R"(", "uid": "uid-)", name, R"(", "labels": )", labels,
        R"(, "creationTimestamp": ")", created,
        R"("}, "status": {"nodeInfo": {"machineID": "m"}, "addresses": [{"type": "InternalIP",)",
        R"( "address": "10.5.0.3"}], "conditions": [{"type": "Ready", "status": ")",
        ready ? "True" : "Unknown", R"(", "lastTransitionTime": "2026-01-02T00:00:00Z"}]}})");
    model.put(pathOf(name), kube::readJson(text, "the test"));
  }
  // Makes the kubelet of this name join from this address.
  void join(kj::StringPtr name, kj::StringPtr address) {
    auto id = kj::str("node-csr-", name);
    model.put(kube::pathOf(kube::certificateRequests(), "", id),
              kubeletRequest(machineCa, id, name, name, address));
  }
  bool has(kj::StringPtr name) { return model.find(pathOf(name)) != nullptr; }
  size_t removals() {
    size_t count = 0;
    for (auto& one : model.asked) count += one.method == "DELETE" ? 1 : 0;
    return count;
  }
};

// Catches: a Node object of a former name that stays, or is removed before the new one is Ready;
// another object that is removed with it.
TEST_F(Renamed, LoseTheNodeObjectOfTheEarlierName) {
  put("master-1", "2026-01-01T00:00:00Z", true);
  put("old", "2026-01-01T00:00:00Z", false);
  put("new", "2026-01-02T00:00:00Z", false);
  join("new", "10.5.0.3");
  start();
  auto watches = [&] {
    size_t count = 0;
    for (auto& one : model.asked) count += one.path.find("watch=true") != std::string::npos ? 1 : 0;
    return count;
  };
  EXPECT_TRUE(eventually([&] { return watches() > 0; }));
  EXPECT_TRUE(has("old"));
  put("new", "2026-01-02T00:00:00Z", true);
  EXPECT_TRUE(eventually([&] { return !has("old"); }));
  EXPECT_TRUE(has("new"));
  EXPECT_TRUE(has("master-1"));
  auto& body = model.asked.back().body;
  EXPECT_EQ(kube::textAt(body, {"preconditions", "uid"}), "uid-old"_kj);
  EXPECT_NE(kube::textAt(body, {"preconditions", "resourceVersion"}), ""_kj);
}

// Catches: a removal by facts of before: the kubelet of the old name has reported again since.
TEST_F(Renamed, KeepANodeObjectThatHasChanged) {
  bool changes = true;
  model.instead = [&](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
    if (asked.method == "DELETE" && changes) {
      changes = false;
      put("old", "2026-01-01T00:00:00Z", true);
    }
    return nullptr;
  };
  put("old", "2026-01-01T00:00:00Z", false);
  put("new", "2026-01-02T00:00:00Z", true);
  join("new", "10.5.0.3");
  start();
  EXPECT_TRUE(eventually([&] { return removals() == 1; }));
  EXPECT_TRUE(has("old"));
  put("old", "2026-01-01T00:00:00Z", false);
  EXPECT_TRUE(eventually([&] { return !has("old"); })) << "it is tried again";
}

// Catches: a worker that removes another one while the latter restarts, because its kubelet reports
// the other's machine id and address; two control planes, which have no request, of which the old
// one stays.
TEST_F(Renamed, AreNotWhatAKubeletReportsAlone) {
  put("old", "2026-01-01T00:00:00Z", false);
  put("new", "2026-01-02T00:00:00Z", true);
  join("new", "10.5.0.9");
  join("other", "10.5.0.3");
  constexpr auto kLabels = R"({"node-role.kubernetes.io/control-plane": ""})"_kj;
  put("z-old", "2026-01-01T00:00:00Z", false, kLabels);  // is looked at after the others
  put("z-new", "2026-01-02T00:00:00Z", true, kLabels);
  start();
  EXPECT_TRUE(eventually([&] { return !has("z-old"); }));
  EXPECT_TRUE(has("old"));
  EXPECT_EQ(removals(), 1u);
}

}  // namespace
}  // namespace talos::kubed
