// Tests the command on nodes of the test's own process: its output, its exit status, and that every
// behaviour of a node lets it end.
#include "talosctl/commands/test-cluster.h"

#include <capnp/message.h>
#include <gmock/gmock.h>

#include "rpc/network-resources.capnp.h"

namespace talos::talosctl {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Diagnose : public ClusterTest {
  Diagnose() { c.test.clock.time = kj::systemPreciseCalendarClock().now(); }
  static bool contains(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  }
};

// Catches: a node that is down and not named, a command that fails because of it.
TEST_F(Diagnose, NamesANodeThatIsDown) {
  node("10.0.0.3").off = true;
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2,10.0.0.3"}), 1);
  auto text = out();
  EXPECT_THAT(text, HasSubstr("10.0.0.3: the node is up, but its apid does not listen"));
  EXPECT_THAT(text, HasSubstr("not checked on 10.0.0.3: "));
  EXPECT_THAT(text, Not(HasSubstr("10.0.0.2: the node")));
}

// Catches: a node that accepts the call and never answers, and would keep the command forever.
TEST_F(Diagnose, EndsWhenANodeHangs) {
  node("10.0.0.3").hangs = true;
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2,10.0.0.3"}), 1);
  EXPECT_THAT(out(), HasSubstr("10.0.0.3: the node does not answer: it is down, or cut off"));
}

// Catches: a node without a config that counts as one that waits for its certificate, or as a node
// of another cluster; and the reverse.
TEST_F(Diagnose, ANodeInMaintenanceIsNotOneThatJoins) {
  node("10.0.0.3").unverified = true;
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2,10.0.0.3"}), 1);
  EXPECT_THAT(out(), Not(HasSubstr("maintenance mode")));
  node("10.0.0.3").stage = rpc::Status::Stage::MAINTENANCE;
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2,10.0.0.3"}), 1);
  auto text = out();
  EXPECT_THAT(text, HasSubstr("10.0.0.3: the node has no config: it is in maintenance mode"));
  EXPECT_THAT(text, HasSubstr("apply-config --insecure -n 10.0.0.3 -f <its config>"));
  EXPECT_THAT(text, HasSubstr("not checked on 10.0.0.3: "));
}

// Catches: a node that answers that it has no config, and is called silent.
TEST_F(Diagnose, ANodeThatSaysThatItIsInMaintenanceAnswers) {
  node("10.0.0.3").withoutConfig = true;
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2,10.0.0.3"}), 1);
  auto text = out();
  EXPECT_THAT(text, HasSubstr("10.0.0.3: the node has no config: it is in maintenance mode"));
  EXPECT_THAT(text, Not(HasSubstr("does not answer")));
}

TEST_F(Diagnose, NamesTheErrorOfEachEndpoint) {
  c.writeConfig(c.authority, "[127.0.0.3]");
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2"}), 1);
  auto text = out();
  EXPECT_THAT(text, HasSubstr("1. the endpoint 127.0.0.3 is up, but nothing listens on its port"));
  EXPECT_THAT(text, HasSubstr("leads to: 10.0.0.2: the node does not answer"));
}

TEST_F(Diagnose, SaysThatTheTalosconfigIsOfAnotherCluster) {
  auto other = pki::makeAuthority({.organization = "talos"});
  c.writeConfig(other);
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2"}), 1);
  auto text = out();
  EXPECT_THAT(text, HasSubstr("the certificate of the endpoint 127.0.0.1 is of another CA"));
  EXPECT_THAT(text, HasSubstr("talosctl config merge <the talosconfig of that cluster>"));
}

// Catches: a remedy that names another talosconfig although this one has the context; a context
// that is named although it is not of that cluster either.
TEST_F(Diagnose, NamesTheContextOfTheOtherCluster) {
  auto other = pki::makeAuthority({.organization = "talos"});
  auto third = pki::makeAuthority({.organization = "talos"});
  auto context = [](kj::StringPtr name, const pki::CertificateAndKey& authority) {
    auto leaf = pki::issue(authority.certificate, authority.key,
                           {.organizations = kj::arr(kj::str("os:admin")), .server = false});
    auto base64 = [](kj::StringPtr text) { return kj::encodeBase64(text.asBytes()); };
    return kj::str("    ", name,
                   ":\n        endpoints: [127.0.0.1]\n        ca: ", base64(authority.certificate),
                   "\n        crt: ", base64(leaf.certificate),
                   "\n        key: ", base64(kj::StringPtr(leaf.key)), "\n");
  };
  writeFileAtomically(c.configPath(),
                      kj::str("context: wrong\ncontexts:\n", context("wrong", other),
                              context("third", third), context("right", c.authority)),
                      0600);
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2"}), 1);
  auto text = out();
  EXPECT_THAT(text, HasSubstr("its context right is of that cluster"));
  EXPECT_THAT(text, HasSubstr("remedy:   talosctl config context right\n"));
  EXPECT_THAT(text, HasSubstr("ca of the context: sha256:"));
}

// Catches: a refusal by the server, which TLS 1.3 reports after the handshake, and which looks like
// a node that is down.
TEST_F(Diagnose, AClientCertificateOfAnotherCaIsNotSilence) {
  auto other = pki::makeAuthority({.organization = "talos"});
  c.writeConfig(c.authority,
                pki::issue(other.certificate, other.key,
                           {.organizations = kj::arr(kj::str("os:admin")), .server = false}));
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2"}), 1);
  EXPECT_THAT(out(), HasSubstr("does not trust the client certificate of the talosconfig"));
}

// Catches: the node's list of its earlier cluster that is not read, or whose absence counts as
// unknown; `bootstrap` for a cluster that has lost its data.
TEST_F(Diagnose, KnowsFromStateThatAClusterHasBeen) {
  auto& asked = node("10.0.0.2");
  asked.etcdWaits = true;
  asked.config.document = kj::str("machine: {type: controlplane}\n");
  c.run({"diagnose", "-n", "10.0.0.2"});
  EXPECT_THAT(out(), HasSubstr("etcd has not been bootstrapped [etcd, certain]"));
  asked.pastControlPlane = kj::str("10.0.0.2\nm-1\n");
  c.run({"diagnose", "-n", "10.0.0.2"});
  auto lost = out();
  EXPECT_THAT(lost, HasSubstr("has the data of etcd any more [etcd, certain]"));
  EXPECT_THAT(lost, HasSubstr("talosctl -n 10.0.0.2 read /system/state/control-plane-nodes"));
  EXPECT_THAT(lost, HasSubstr("remedy:   talosctl -n 10.0.0.2 cluster recover <snapshot>"));
}

// Catches: a clock that is compared with the time of the last answer and so is wrong as soon as one
// request hangs; also if the clock is read from the newest event.
TEST_F(Diagnose, AQuestionThatHangsMakesNoClockWrong) {
  for (bool timeless : {false, true}) {
    auto& asked = node("10.0.0.2");
    auto now = (c.test.clock.time - kj::UNIX_EPOCH) / kj::NANOSECONDS;
    asked.clock = now;
    asked.serviceEvent = static_cast<uint64_t>(now) - 1'000'000'000;
    asked.timeless = timeless;
    asked.upgrades.etcdHangs = true;
    auto run = c.start({"diagnose", "-n", "10.0.0.2"});
    c.settle();
    c.test.clock.time += 10 * kj::SECONDS;
    EXPECT_EQ(c.finish(kj::mv(run)), 1);
    auto text = out();
    EXPECT_THAT(text, HasSubstr("no answer within 10s"));
    EXPECT_THAT(text, Not(HasSubstr("clock")));
    asked.clock -= 60'000'000'000, asked.serviceEvent -= 60'000'000'000;
    EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2"}), 1);
    EXPECT_THAT(out(), HasSubstr("clock"));
  }
}

// Catches: a node of an earlier release, which reports no firewall, and whose addresses are not
// checked for that reason.
TEST_F(Diagnose, ANodeWithoutAFirewallMissesThatCheckOnly) {
  for (auto type : typeNames<rpc::FirewallSpecSpec, rpc::FirewallStatusSpec>()) {
    node("10.0.0.2").unknownType = type;
    c.run({"diagnose", "-n", "10.0.0.2"});
    EXPECT_THAT(out(), HasSubstr("not checked on 10.0.0.2: firewall (")) << type.cStr();
  }
}

// Catches: a kernel log that is not requested, or whose lines are lost on the way.
TEST_F(Diagnose, NamesTheFirmwareThatADriverDidNotFind) {
  node("10.0.0.3")
      .kernelLines.add(
          kj::str("kern: err: [2021-03-06T03:06:41Z]: r8169 0000:02:00.0: firmware: failed to load "
                  "rtl_nic/rtl8168g-2.fw (-2)\n"));
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2,10.0.0.3"}), 1);
  auto text = out();
  EXPECT_THAT(text, HasSubstr("10.0.0.3: the driver r8169 of device 0000:02:00.0 did not find its "
                              "firmware rtl_nic/rtl8168g-2.fw; Debian's package firmware-realtek"));
  EXPECT_THAT(text, HasSubstr("FIRMWARE=\"firmware-realtek\""));
  EXPECT_THAT(text, HasSubstr("talosctl -n 10.0.0.3 dmesg"));
  EXPECT_THAT(text, Not(HasSubstr("10.0.0.2: the driver")));
}

// Catches: a cause that names only the control plane, because only Kubernetes, which does not
// answer, could name the workers; a worker that has left the cluster and is reported as down.
TEST_F(Diagnose, AsksTheWorkersWhileKubernetesDoesNotAnswer) {
  auto missing =
      "kern: err: [2021-03-06T03:06:41Z]: r8169 0000:02:00.0: firmware: failed to load "
      "rtl_nic/rtl8168g-2.fw (-2)\n";
  for (auto address : {"127.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.5"}) {
    node(address).kernelLines.add(kj::str(missing));
  }
  node("127.0.0.1").config.document = kj::str("machine: {type: controlplane}\n");
  node("10.0.0.4").off = true;
  for (auto valid : {"10.0.0.3", "10.0.0.3", "127.0.0.1", "10.0.0.4", "no address"}) {
    node("127.0.0.1").issued.add(FakeNode::Issued{valid, "2199-01-01T00:00:00Z"});
  }
  node("127.0.0.1").issued.add(FakeNode::Issued{"10.0.0.5", "2021-03-06T03:06:41Z"});
  EXPECT_EQ(c.run({"diagnose"}), 1);
  auto text = out();
  EXPECT_THAT(text, HasSubstr(", 10.0.0.3: the driver r8169 of device 0000:02:00.0"));
  EXPECT_THAT(text, HasSubstr("checks of 2 nodes"));
  EXPECT_THAT(text, Not(HasSubstr("10.0.0.4")));
  EXPECT_THAT(text, Not(HasSubstr("10.0.0.5")));
  // Named nodes are not extended by others.
  c.run({"diagnose", "-n", "127.0.0.1"});
  EXPECT_THAT(out(), Not(HasSubstr("10.0.0.3")));
}

// Catches: a worker whose kubelet has not registered it, and which only its certificate names.
TEST_F(Diagnose, AsksAWorkerThatKubernetesDoesNotName) {
  capnp::MallocMessageBuilder message;
  auto survey = message.initRoot<rpc::Survey>();
  survey.initNodes(1)[0].setName("m-1");
  auto& master = node("127.0.0.1");
  master.config.document = kj::str("machine: {type: controlplane}\n");
  master.kubernetes.survey = survey.asReader();
  master.issued.add(FakeNode::Issued{"10.0.0.3", "2199-01-01T00:00:00Z"});
  c.run({"diagnose"});
  EXPECT_THAT(out(), HasSubstr("checks of 2 nodes"));
}

TEST_F(Diagnose, PrintsJsonAndYaml) {
  node("10.0.0.3").off = true;
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2,10.0.0.3", "-o", "json"}), 1);
  auto json = out();
  EXPECT_TRUE(contains(json, "\"check\": \"node-down\""));
  EXPECT_TRUE(contains(json, "\"confidence\": \"certain\""));
  EXPECT_EQ(c.run({"diagnose", "-n", "10.0.0.2,10.0.0.3", "-o", "yaml"}), 1);
  EXPECT_THAT(out(), HasSubstr("check: node-down"));
}

}  // namespace
}  // namespace talos::talosctl
