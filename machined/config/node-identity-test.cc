#include "machined/config/node-identity.h"

#include "common/yaml/yaml-codec.h"
#include "machined/config/test-config-manager.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

// A node a at 10.5.0.2 of a cluster with b at 10.5.0.3, and the remains of node a under its earlier
// name old.
struct NodeIdentityTest : public ConfigManagerTest {
  ~NodeIdentityTest() noexcept override {}
  void join() {
    auto& store = booted(document("a")).store;
    putRecord<rpc::NodenameSpec>(store, "nodename", [](auto spec) { spec.setNodename("a"); });
    putRecord<rpc::NodeAddressSpec>(store, "current",
                                    [](auto spec) { spec.initAddresses(1).set(0, "10.5.0.2"); });
    auto member = [&](kj::StringPtr name, kj::StringPtr address) {
      putRecord<rpc::MemberSpec>(store, name, [&](auto spec) {
        spec.setHostname(name);
        spec.setMachineType("controlplane");
        spec.initAddresses(1).set(0, address);
      });
    };
    member("a", "10.5.0.2");
    member("b", "10.5.0.3");
    member("old", "10.5.0.2");
  }
};

// Catches: the config of another node that is accepted; a node that may not be renamed, or not
// renamed back.
TEST_F(NodeIdentityTest, TheConfigOfAnotherNodeIsRefused) {
  join();
  for (auto mode : {ApplyMode::NO_REBOOT, ApplyMode::REBOOT, ApplyMode::TRY}) {
    auto text = refusal(apply(document("B"), mode));
    EXPECT_TRUE(contains(text,
                         "FailedPrecondition: this config is that of another node: "
                         "machine.network.hostname B belongs to b, and this node is a; check -n"))
        << text;
  }
  auto text = refusal(apply(
      document("a", "    interfaces: [{interface: eth0, cidr: 10.5.0.3/24}]\n"), ApplyMode::AUTO));
  EXPECT_TRUE(contains(text, "the address 10.5.0.3 belongs to b")) << text;
  EXPECT_EQ("a/a", state());
  for (auto name : {"c", "old"})
    apply(document(name), ApplyMode::NO_REBOOT, true).wait(io.waitScope);
}

// Catches: a worker that blocks a name for other nodes by reporting it as its host name.
TEST_F(NodeIdentityTest, AHostNameThatAnotherNodeReportsIsNotItsName) {
  join();
  putRecord<rpc::MemberSpec>(brain().store, "w", [](auto spec) {
    spec.setHostname("c");
    spec.setMachineType("worker");
    spec.initAddresses(1).set(0, "10.5.0.9");
  });
  apply(document("c"), ApplyMode::NO_REBOOT, true).wait(io.waitScope);
}

// Catches: host names with a domain, which is no part of the name in Kubernetes unless the kubelet
// registers with it: the config of another node that is accepted, a warning about a name that
// stays.
TEST_F(NodeIdentityTest, TheDomainIsPartOfANameOnlyIfTheKubeletSaysSo) {
  join();
  auto warnings = [&](kj::StringPtr hostname, kj::StringPtr more) {
    auto outcome = apply(document(hostname, more), ApplyMode::REBOOT, true).wait(io.waitScope);
    return kj::strArray(outcome.warnings, " ");
  };
  constexpr kj::StringPtr kQualified = "  kubelet: {registerWithFQDN: true}\n"_kj;
  auto text = refusal(apply(document("b.example.org"), ApplyMode::REBOOT, true));
  EXPECT_TRUE(contains(text, "machine.network.hostname b.example.org belongs to b,")) << text;
  EXPECT_EQ(warnings("a.example.org", ""), ""_kj);
  EXPECT_TRUE(contains(warnings("b.example.org", kQualified).cStr(),
                       "renames the node from a to b.example.org:"));
  EXPECT_TRUE(contains(warnings("a.example.org", kQualified).cStr(),
                       "renames the node from a to a.example.org:"));
}

// Catches: a second Node object of one machine without a warning; a warning if the name stays, or
// if Kubernetes does not know the node yet.
TEST_F(NodeIdentityTest, ARenamedNodeIsANewOneForKubernetes) {
  booted(document("a"));
  EXPECT_EQ(0u,
            apply(document("c"), ApplyMode::NO_REBOOT, true).wait(io.waitScope).warnings.size());
  join();
  auto outcome = apply(document("c"), ApplyMode::NO_REBOOT, true).wait(io.waitScope);
  ASSERT_EQ(1u, outcome.warnings.size());
  EXPECT_STREQ(outcome.warnings[0].cStr(),
               "machine.network.hostname: renames the node from a to c: Kubernetes will see a new "
               "one; the old one is removed when the new one is ready");
  outcome = apply(document("a", "  sysctls: {a.b: \"1\"}\n"), ApplyMode::NO_REBOOT, true)
                .wait(io.waitScope);
  EXPECT_EQ(0u, outcome.warnings.size());
}

// Catches: a document of the same meaning in another notation that is shown as a change of every
// line.
TEST_F(NodeIdentityTest, ADocumentOfTheSameMeaningIsNoChange) {
  booted(document("a"));
  auto json = [](kj::StringPtr hostname) {
    auto parsed = config::parse(document(hostname), "f");
    return codec::writeJson(parsed.get(), {.empties = codec::Empties::kOmit});
  };
  auto outcome = apply(json("a"), ApplyMode::AUTO, true).wait(io.waitScope);
  EXPECT_EQ(ApplyMode::NO_REBOOT, outcome.mode);
  EXPECT_EQ(0u, outcome.changes.size());
  EXPECT_STREQ("", outcome.diff.cStr());
  outcome = apply(kj::str("# a note\n", document("a")), ApplyMode::AUTO, true).wait(io.waitScope);
  EXPECT_STREQ("", outcome.diff.cStr());
  outcome = apply(json("b"), ApplyMode::AUTO, true).wait(io.waitScope);
  EXPECT_TRUE(contains(outcome.diff.cStr(), "-        hostname: a\n+        hostname: b\n"))
      << outcome.diff.cStr();
  EXPECT_FALSE(contains(outcome.diff.cStr(), "-version")) << outcome.diff.cStr();
}

}  // namespace
}  // namespace talos::machined
