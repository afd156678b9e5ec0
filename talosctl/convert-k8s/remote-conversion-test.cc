// Tests that keys of the control plane are not sent to nodes merely because Kubernetes lists them
// as control-plane nodes.
#include "talosctl/convert-k8s/remote-conversion.h"

#include <gtest/gtest.h>

#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kNode = "10.0.0.2"_kj;

struct RemoteConversionTest : public ClusterTest {
  ~RemoteConversionTest() noexcept override {}

  kj::Own<Client> clientOf() {
    auto leaf = pki::issue(c.authority.certificate, c.authority.key,
                           {.organizations = kj::arr(kj::str("os:admin")), .server = false});
    Target target{.endpoints = {},
                  .nodes = {},
                  .credentials = {kj::str(c.authority.certificate), kj::mv(leaf.certificate),
                                  kj::mv(leaf.key)},
                  .fingerprints = {}};
    target.endpoints.add(kj::str("127.0.0.1"));
    return kj::heap<Client>(*c.deps, kj::mv(target));
  }
  // Makes the node claim this type, with the key of this CA.
  void becomes(kj::StringPtr type, const pki::CertificateAndKey& ca) {
    node(kNode).config.document =
        kj::str("version: v1alpha1\nmachine:\n  type: ", type,
                "\n  ca: {crt: ", kj::encodeBase64(ca.certificate.asBytes()),
                ", key: ", kj::encodeBase64(ca.key.bytes()), "}\n");
  }
  std::string refusalOf(kj::Promise<void> work) {
    std::string error;
    auto end = work.then([] { return 0; },
                         [&](kj::Exception&& e) {
                           error = messageOf(e).cStr();
                           return 1;
                         });
    EXPECT_NE(c.finish(kj::mv(end)), -1);
    return error;
  }
};

}  // namespace

// Catches: the key of service accounts sent to a worker that has the label of the control plane, or
// that a false list names; a CA of the aggregation layer that such a node has created.
TEST_F(RemoteConversionTest, OnlyANodeWithTheKeyOfTheControlPlaneGetsItsKeys) {
  auto client = clientOf();
  RemoteConversion nodes(*client, 30 * kj::SECONDS);
  auto patch = R"([{"op": "add", "path": "/cluster", "value": {"clusterName": "x"}}])"_kj;
  auto foreign = pki::makeAuthority({.organization = "talos"});
  auto& config = node(kNode).config;
  becomes("controlplane", foreign);
  for (bool rehearsal : {true, false}) {
    auto error = refusalOf(nodes.patch(kNode, patch, rehearsal));
    EXPECT_NE(error.find("10.0.0.2: its config has machine.type: controlplane, but not the key"),
              std::string::npos)
        << error;
  }
  EXPECT_NE(refusalOf(nodes.read(kNode).ignoreResult()).find("but not the key"), std::string::npos);
  becomes("worker", c.authority);
  EXPECT_NE(refusalOf(nodes.patch(kNode, patch, false)).find("that of a worker"),
            std::string::npos);
  EXPECT_TRUE(config.applied.empty());
  becomes("controlplane", c.authority);
  EXPECT_EQ(refusalOf(nodes.read(kNode).ignoreResult()), "");
  EXPECT_EQ(refusalOf(nodes.patch(kNode, patch, false)), "");
  EXPECT_EQ(config.applied.size(), 1u);
}

// Catches: a patch that ends the trial of a config; one that is made from the config that went back
// meanwhile, and that the node refuses.
TEST_F(RemoteConversionTest, ATrialOfTheConfigIsAwaited) {
  auto client = clientOf();
  RemoteConversion nodes(*client, 30 * kj::SECONDS);
  becomes("controlplane", c.authority);
  auto& config = node(kNode).config;
  unsigned looks = 0;
  node(kNode).fillStatus = [&](rpc::Status::Builder status) {
    bool isBack = ++looks > 100;
    if (isBack) config.version = 2;
    status.initConfigTrial().setState(isBack ? rpc::ConfigTrial::State::REVERTED
                                             : rpc::ConfigTrial::State::TRYING);
  };
  auto patch = R"([{"op": "add", "path": "/cluster", "value": {"clusterName": "x"}}])"_kj;
  EXPECT_EQ(refusalOf(nodes.patch(kNode, patch, false)), "");
  EXPECT_EQ(config.applied.size(), 1u);
  EXPECT_EQ(config.ifVersion, 2u);
}

}  // namespace talos::talosctl
