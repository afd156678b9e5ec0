#include "kubed/manifests/retired-objects.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/kube/test-kube-server.h"

namespace talos::kubed {
namespace {

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
