#include "machined/kubed/member-keeper.h"

#include <gtest/gtest.h>

namespace talos::kubed {
namespace {

Member of(kj::StringPtr json) {
  return memberOf(kube::readJson(json, "the test"));
}

TEST(Members, AreWhatNodesSayOfThemselves) {
  auto master = of(R"({
      "metadata": {"name": "master-1", "labels": {"node-role.kubernetes.io/control-plane": ""}},
      "status": {"nodeInfo": {"osImage": "Talos v0.9.0"},
                 "addresses": [{"type": "ExternalIP", "address": "192.0.2.1"},
                               {"type": "InternalIP", "address": "10.5.0.2"},
                               {"type": "InternalIP", "address": "fd00::2"},
                               {"type": "Hostname", "address": "master-1.example.org"}]}})");
  EXPECT_STREQ("master-1.example.org", master.hostname.cStr());
  EXPECT_TRUE(master.controlPlane);
  EXPECT_STREQ("Talos v0.9.0", master.operatingSystem.cStr());
  EXPECT_EQ("10.5.0.2, fd00::2", kj::strArray(master.addresses, ", "));
}

// Catches: a control plane of Kubernetes 1.19, which knows one label only; a worker that is a
// master because it has labels at all.
TEST(Members, AreControlPlanesByTheLabelOfEitherAge) {
  EXPECT_TRUE(of(R"({"metadata": {"name": "a", "labels": {"node-role.kubernetes.io/master": ""}}})")
                  .controlPlane);
  EXPECT_FALSE(of(R"({"metadata": {"name": "a", "labels": {"x": "y"}}})").controlPlane);
}

// Catches: a node that is odd, and takes the others with it.
TEST(Members, OfNodesThatSayNothing) {
  for (auto text : {R"({"metadata": {"name": "a"}})", R"({"metadata": {"name": "a"}, "status": 1})",
                    R"({"metadata": {"name": "a"}, "status": {"addresses": {}}})",
                    R"({"metadata": {"name": "a"}, "status": {"addresses": [1, {}]}})"}) {
    auto member = of(text);
    EXPECT_STREQ("a", member.hostname.cStr()) << text;
    EXPECT_EQ(0u, member.addresses.size()) << text;
  }
}

}  // namespace
}  // namespace talos::kubed
