#include "kubed/nodes/member-reconciler.h"

#include <gtest/gtest.h>

#include "common/kube/kubeconfig.h"
#include "common/kube/test-kube-server.h"
#include "kubed/nodes/node-reconciler.h"
#include "tests/models/test-machined.h"

namespace talos::kubed {
namespace {

Member memberOfJson(kj::StringPtr json) {
  return memberOf(kube::readJson(json, "the test"));
}

// Catches: a worker that takes the name of a control plane because its kubelet reports it as its
// host name; a node that is known by a part of its name.
TEST(MemberOfNode, HasTheNameOfItsObject) {
  auto master = memberOfJson(R"({
      "metadata": {"name": "master-1", "labels": {"node-role.kubernetes.io/control-plane": ""}},
      "status": {"nodeInfo": {"osImage": "Talos v0.9.0"},
                 "addresses": [{"type": "Hostname", "address": "master-2"},
                               {"type": "ExternalIP", "address": "192.0.2.1"},
                               {"type": "InternalIP", "address": "10.5.0.2"},
                               {"type": "InternalIP", "address": "fd00::2"},
                               {"type": "Hostname", "address": "master-1.example.org"}]}})");
  EXPECT_STREQ("master-1", master.name.cStr());
  EXPECT_TRUE(master.controlPlane);
  EXPECT_STREQ("Talos v0.9.0", master.operatingSystem.cStr());
  EXPECT_EQ("10.5.0.2, fd00::2", kj::strArray(master.addresses, ", "));
}

// Catches: a control plane of Kubernetes 1.19, which knows one label only; a worker that is a
// master because it has labels at all.
TEST(MemberOfNode, AreControlPlanesByTheLabelOfEitherAge) {
  EXPECT_TRUE(
      memberOfJson(
          R"({"metadata": {"name": "a", "labels": {"node-role.kubernetes.io/master": ""}}})")
          .controlPlane);
  EXPECT_FALSE(memberOfJson(R"({"metadata": {"name": "a", "labels": {"x": "y"}}})").controlPlane);
}

// Catches: a node that is odd, and takes the others with it.
TEST(MemberOfNode, OfNodesThatSayNothing) {
  for (auto text : {R"({"metadata": {"name": "a"}})", R"({"metadata": {"name": "a"}, "status": 1})",
                    R"({"metadata": {"name": "a"}, "status": {"addresses": {}}})",
                    R"({"metadata": {"name": "a"}, "status": {"addresses": [1, {}]}})"}) {
    auto member = memberOfJson(text);
    EXPECT_STREQ("a", member.name.cStr()) << text;
    EXPECT_EQ(0u, member.addresses.size()) << text;
  }
}

pki::Pem kubeconfigAt(kj::StringPtr server) {
  return kube::writeKubeconfig({.cluster = "c1",
                                .server = server,
                                .authority = "CA",
                                .user = "u",
                                .credentials = kube::ClientPair{"CERT", "KEY"},
                                .context = "c",
                                .nameSpace = "default"});
}

// A node whose own API server does not run, and an endpoint that leads to other nodes' servers.
struct Members : public testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io, kKubedUid};
  kube::ModelKube near{timer}, far{timer};
  bool farRefuses = false;
  StoreClient store{*io.lowLevelProvider, timer, machined.socket(), kj::str(kOwner)};
  Signal changed;
  TlsEndpoint etcd;
  kj::Function<double()> random = [] { return 0.0; };

  Members() {
    auto refuse = [](auto&) -> kj::Maybe<kube::ModelKube::Reply> {
      return kube::ModelKube::Reply{503, R"({"kind":"Status","message":"no"})", ""};
    };
    near.addUsualKinds();
    near.instead = refuse;
    far.addUsualKinds();
    far.instead = [this, refuse](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
      if (farRefuses) return refuse(asked);
      return nullptr;
    };
    auto own = kubeconfigAt("https://127.0.0.1:6443"), cluster = kubeconfigAt("https://lb:7443");
    machined.kind<rpc::KubernetesSecretsSpec>().set<rpc::KubernetesSecretsSpec>(
        "k8s-certs", "machined", [&](auto spec) { spec.setAdminKubeconfig(kj::StringPtr(own)); });
    machined.kind<rpc::KubeletSecretsSpec>().set<rpc::KubeletSecretsSpec>(
        "kubelet", "machined",
        [&](auto spec) { spec.setBootstrapKubeconfig(kj::StringPtr(cluster)); });
    machined.start();
  }
  ~Members() noexcept override {}
  SharedKube::Make make() {
    return [this](kube::KubeAccess access) {
      auto& model = access.host == "lb" ? far : near;
      return kj::heap<kube::KubeClient>(
          timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access());
    };
  }
  void node(kj::StringPtr name) {
    far.put(kj::str("/api/v1/nodes/", name),
            kube::readJson(kj::str(R"({"metadata": {"name": ")", name, R"("}})"), "the test"));
  }
  size_t published() { return machined.kind<rpc::MemberSpec>().size(); }
  bool eventually(kj::Function<bool()> condition) {
    auto deadline = timer.now() + 20 * kj::SECONDS;
    while (!condition() && timer.now() < deadline) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return condition();
  }
};

// Catches: a joining node that calls its own API server, which does not run before it has joined; a
// node that left, watched or not, and stays; a node that leaves because no API server answers.
TEST_F(Members, AreThoseOfTheEndpointWhileThisNodeHasNoApiServer) {
  node("a");
  node("b");
  KubernetesStoreAdapter adapter(store, etcd, make(), changed);
  MemberReconciler reconciler(
      {.timer = timer, .random = random, .store = store, .adapter = adapter, .changed = changed});
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  EXPECT_TRUE(eventually([&] { return published() == 2; })) << published();
  far.drop("/api/v1/nodes/b");
  EXPECT_TRUE(eventually([&] { return published() == 1; })) << published();
  farRefuses = true;
  auto before = far.asked.size() + near.asked.size();
  changed.raise();
  EXPECT_TRUE(eventually([&] { return far.asked.size() + near.asked.size() >= before + 2; }));
  EXPECT_EQ(published(), 1u);
  far.drop("/api/v1/nodes/a");
  farRefuses = false;
  EXPECT_TRUE(eventually([&] { return published() == 0; })) << published();
}

// Catches: a control plane that is shown as a worker until it has its label; a worker that is shown
// as a control plane, for its name begins like that of one.
TEST_F(Members, AreControlPlanesByTheMembersOfEtcdAndTheNodeItself) {
  for (auto name : {"m1", "m2", "m20", "w"}) node(name);
  auto& etcdMembers = machined.kind<rpc::EtcdMemberSpec>();
  auto join = [&](kj::StringPtr id, kj::StringPtr name) {
    etcdMembers.set<rpc::EtcdMemberSpec>(id, "etcd-supervisor",
                                         [&](auto spec) { spec.setName(name); });
  };
  join("1", "");  // it has not started yet
  machined.kind<rpc::NodeSpecSpec>().set<rpc::NodeSpecSpec>("node", "machined", [](auto spec) {
    spec.setNodename("m1");
    spec.setControlPlane(true);
  });
  KubernetesStoreAdapter adapter(store, etcd, make(), changed);
  MemberReconciler reconciler(
      {.timer = timer, .random = random, .store = store, .adapter = adapter, .changed = changed});
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  auto controlPlanes = [this] {
    std::string all;
    for (auto one : machined.kind<rpc::MemberSpec>().all()) {
      ResourceOf<rpc::MemberSpec> member(one);
      if (member.getMachineType() == "controlplane") all += kj::str(member.id(), " ").cStr();
    }
    return all;
  };
  EXPECT_TRUE(eventually([&] { return published() == 4 && controlPlanes() == "m1 "; }))
      << controlPlanes();
  join("2", "M2");
  EXPECT_TRUE(eventually([&] { return controlPlanes() == "m1 m2 "; })) << controlPlanes();
  etcdMembers.destroy("2");
  EXPECT_TRUE(eventually([&] { return controlPlanes() == "m1 "; })) << controlPlanes();
}

// Catches: a control plane without its label until its own API server runs, a minute after its
// registration when it joins.
TEST_F(Members, TheNodeGetsItsLabelsAtTheEndpointWhileItHasNoApiServer) {
  far.put("/api/v1/nodes/m2",
          kube::readJson(
              R"({"metadata": {"name": "m2", "labels": {"kubernetes.io/hostname": "m2"}}})"_kj,
              "the test"));
  machined.kind<rpc::NodeSpecSpec>().set<rpc::NodeSpecSpec>("node", "machined", [](auto spec) {
    spec.setNodename("m2");
    spec.setControlPlane(true);
    auto labels = spec.initLabels(1);
    labels[0].setKey("node-role.kubernetes.io/control-plane");
  });
  KubernetesStoreAdapter adapter(store, etcd, make(), changed);
  NodeReconciler reconciler(
      {.timer = timer, .random = random, .store = store, .adapter = adapter, .changed = changed});
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  EXPECT_TRUE(eventually(
      [&] { return memberOf(KJ_ASSERT_NONNULL(far.find("/api/v1/nodes/m2"))).controlPlane; }));
}

}  // namespace
}  // namespace talos::kubed
