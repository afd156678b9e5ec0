#include "kubed/manifests/manifest-creation.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/kube/test-kube-server.h"

namespace talos::kubed {
namespace {

class ManifestCreation : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kube::ModelKube model{timer};
  kube::KubeClient client{timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access()};
  kj::Vector<kj::String> created;
  kj::Function<void(const ManifestObject&)> recordCreated = [this](const ManifestObject& one) {
    created.add(one.displayName());
  };

  ManifestCreation() { model.addUsualKinds(); }
  ~ManifestCreation() noexcept override {}

  void create(kj::StringPtr text) {
    kj::Vector<ManifestText> manifests;
    manifests.add(ManifestText{"05-x", text});
    auto objects = kube::objectsOf(kj::mv(manifests), "secret");
    created.clear();
    createObjects(client, objects, recordCreated).wait(scope);
  }
};

constexpr kj::StringPtr kThree = R"(
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: kube-system}, data: {k: v}}
- {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: b, namespace: kube-system}}
- {apiVersion: v1, kind: Node, metadata: {name: c}}
)"_kj;

// Catches: a foreign object that is changed; an object that is created twice.
TEST_F(ManifestCreation, ExistingObjectIsLeftUnchanged) {
  model.put("/api/v1/namespaces/kube-system/configmaps/a",
            {{"metadata", {{"name", "a"}}}, {"data", {{"k", "another"}}}});
  create(kThree);
  EXPECT_EQ(kj::strArray(created, " "), "apps/v1/DaemonSet/b /v1/Node/c"_kj);
  auto there = KJ_ASSERT_NONNULL(model.find("/api/v1/namespaces/kube-system/configmaps/a"));
  EXPECT_EQ(kube::textAt(there, {"data", "k"}), "another"_kj);
  EXPECT_NE(model.find("/api/v1/nodes/c"), nullptr);
  for (auto& asked : model.asked) EXPECT_TRUE(asked.method == "GET" || asked.method == "POST");

  auto version = model.count();
  create(kThree);
  EXPECT_EQ(created.size(), 0u);
  EXPECT_EQ(model.count(), version);
}

// Catches: a pass that continues after a failure, so that a required order is lost.
TEST_F(ManifestCreation, AFailureEndsThePassAndIsNamed) {
  model.strictNamespaces = true;
  auto failed = kj::runCatchingExceptions([&]() { create(kThree); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)),
            "Kubernetes at model:6443: cannot create configmaps/a in kube-system: namespaces "
            "\"kube-system\" not found"_kj);
  EXPECT_EQ(model.count(), 0u);
  model.put("/api/v1/namespaces/kube-system", {{"metadata", {{"name", "kube-system"}}}});
  create(kThree);
  EXPECT_EQ(created.size(), 3u);
}

TEST_F(ManifestCreation, AnotherNodeMayBeFaster) {
  model.instead = [&](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
    if (asked.method != "POST") return nullptr;
    return kube::ModelKube::Reply{409, R"({"kind":"Status","reason":"AlreadyExists"})", ""};
  };
  create(kThree);
  EXPECT_EQ(created.size(), 0u);
}

// Catches: a cluster without a network because an unrelated manifest is wrong.
TEST_F(ManifestCreation, AnExtraManifestThatIsWrongHoldsUpNoOther) {
  constexpr ManifestText kAll[] = {
      {"05-bad"_kj, "- {kind: List}\n"_kj, true},
      {"06-page"_kj, "<html>: [\n"_kj, true},
      {"10-own"_kj, "- {apiVersion: v1, kind: ConfigMap, metadata: {name: own}}\n"_kj},
      {"99-good"_kj, "- {apiVersion: v1, kind: Namespace, metadata: {name: good}}\n"_kj, true},
      {"99-kind"_kj, "- {apiVersion: v1, kind: Widget, metadata: {name: w}}\n"_kj, true}};
  auto result =
      createManifests(client, kAll, "secret", [&](auto& one) { recordCreated(one); }).wait(scope);
  EXPECT_EQ(kj::strArray(created, " "), "/v1/ConfigMap/own /v1/Namespace/good"_kj);
  EXPECT_EQ(kj::strArray(result.applied, " "), "10-own 99-good"_kj);
  ASSERT_EQ(result.failures.size(), 3u);
  EXPECT_EQ(result.failures[0].error,
            "manifest 05-bad: an object lacks apiVersion, kind or metadata.name"_kj);
  EXPECT_TRUE(result.failures[1].error.startsWith("06-page:")) << result.failures[1].error.cStr();
  EXPECT_EQ(result.failures[2].id, "99-kind"_kj);
  EXPECT_EQ(result.failures[2].error, "Kubernetes at model:6443: it knows no kind Widget of v1"_kj);

  model.instead = [&](auto&) -> kj::Maybe<kube::ModelKube::Reply> {
    return kube::ModelKube::Reply{503, "", ""};
  };
  EXPECT_NE(kj::runCatchingExceptions(
                [&]() { createManifests(client, kAll, "secret", [](auto&) {}).wait(scope); }),
            nullptr);
}

struct RetiredObjects : public testing::Test {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kube::ModelKube model{timer};
  kube::KubeClient client{timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access()};

  ~RetiredObjects() noexcept override {}
  static kj::String pathOf(kj::StringPtr name) {
    return kj::str("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/", name);
  }
  void put(kj::StringPtr name, kj::StringPtr role, kube::Json subject) {
    model.put(pathOf(name), {{"metadata", {{"name", name.cStr()}}},
                             {"subjects", kube::Json::array({kj::mv(subject)})},
                             {"roleRef", {{"kind", "ClusterRole"}, {"name", role.cStr()}}}});
  }
  std::string remove() {
    std::string names;
    removeRetired(client, [&](kj::StringPtr name) {
      names += name.cStr() + std::string("\n");
    }).wait(scope);
    return names;
  }
};

// Catches: a cluster of an earlier release in which a pod or the bootstrap token keeps its rights.
TEST_F(RetiredObjects, OfEarlierReleasesAreRemoved) {
  put("system:default-sa", "cluster-admin",
      {{"kind", "ServiceAccount"}, {"name", "default"}, {"namespace", "kube-system"}});
  put("system-bootstrap-approve-node-client-csr",
      "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
      {{"kind", "Group"}, {"name", "system:bootstrappers"}});
  put("another", "cluster-admin", {{"kind", "User"}, {"name", "me"}});
  EXPECT_EQ(remove(), "system-bootstrap-approve-node-client-csr\nsystem:default-sa\n");
  EXPECT_EQ(model.count(), 1u);
  EXPECT_EQ(remove(), "");
}

// Catches: a foreign binding under such a name that is removed.
TEST_F(RetiredObjects, OfOthersAreLeft) {
  put("system:default-sa", "view",
      {{"kind", "ServiceAccount"}, {"name", "default"}, {"namespace", "kube-system"}});
  put("system-bootstrap-approve-node-client-csr",
      "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
      {{"kind", "Group"}, {"name", "my-provisioner"}});
  EXPECT_EQ(remove(), "");
  EXPECT_EQ(model.count(), 2u);
  model.instead = [](auto&) -> kj::Maybe<kube::ModelKube::Reply> {
    return kube::ModelKube::Reply{403, R"({"kind":"Status","message":"no"})", ""};
  };
  EXPECT_NE(kj::runCatchingExceptions([&] { remove(); }), nullptr);
}

}  // namespace
}  // namespace talos::kubed
