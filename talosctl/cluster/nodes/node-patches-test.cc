#include "talosctl/cluster/nodes/node-patches.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/netlink/netlink-wireguard.h"
#include "talosctl/cluster/nodes/cluster-plan.h"

namespace talos::cluster {
namespace {

using ::testing::HasSubstr;

struct Planned {
  capnp::MallocMessageBuilder message;
  rpc::LocalCluster::Builder cluster = message.initRoot<rpc::LocalCluster>();
  Planned(unsigned masters, unsigned workers) {
    Request request;
    request.name = kj::str("demo");
    request.masters = masters, request.workers = workers;
    request.cidr = kj::str("10.5.0.0/24");
    request.accelerator = kj::str("tcg");
    plan(request, [](unsigned, unsigned, unsigned) { return true; }, cluster);
  }
};

// Parses the config of `gen config` with this patch.
config::MachineConfig patched(const talosctl::Patch& patch, config::MachineType type) {
  static const auto& secrets = *new config::Secrets(config::makeSecrets());
  config::GenerateOptions options;
  options.docs = false;
  auto text = config::machineConfig(secrets, type, "demo", "https://10.5.0.2:6443", options);
  auto changed = talosctl::applyPatches(text, "config", kj::arrayPtr(&patch, 1));
  auto parsed = config::parse(changed, "patched");
  EXPECT_TRUE(parsed.good()) << render(parsed.problems()).cStr() << changed.cStr();
  return parsed;
}

kj::String keyOf(kj::StringPtr secret) {
  return netlink::toText(
      KJ_ASSERT_NONNULL(netlink::WireguardSecret::parse(secret), secret).publicKey());
}

// Returns "10.1.0.2: 10.5.0.2:51111 10.1.0.0/24" for each peer of a node, by the address of the
// peer.
kj::String peersOf(kj::ArrayPtr<const config::MachineConfig> nodes, size_t own) {
  kj::Vector<kj::String> all;
  auto wg = nodes[own].get().getMachine().getNetwork().getInterfaces()[0].getWireguard();
  for (auto peer : wg.getPeers()) {
    kj::String who = kj::str("nobody");
    for (auto& other : nodes) {
      auto link = other.get().getMachine().getNetwork().getInterfaces()[0];
      if (keyOf(link.getWireguard().getPrivateKey()) == peer.getPublicKey())
        who = kj::str(link.getCidr());
    }
    EXPECT_STREQ(peer.getPersistentKeepaliveInterval().cStr(), "5s");
    EXPECT_EQ(peer.getAllowedIPs().size(), 1u);
    all.add(kj::str(who, " ", peer.getEndpoint(), " ", peer.getAllowedIPs()[0]));
  }
  return kj::strArray(all, "; ");
}

kj::Vector<config::MachineConfig> wireguardOf(const Planned& planned, kj::StringPtr cidr) {
  kj::Vector<config::MachineConfig> nodes;
  auto patches = wireguardPatches(planned.cluster.asReader(), cidr);
  for (auto i : kj::indices(patches)) {
    bool worker = planned.cluster.asReader().getNodes()[i].getType() == "join";
    nodes.add(patched(patches[i],
                      worker ? config::MachineType::WORKER : config::MachineType::CONTROLPLANE));
  }
  return nodes;
}

// Catches: a node that is not a peer of its peers, and a network that the last peer takes from all
// others.
TEST(WireguardPatches, EachNodeReachesEachOther) {
  Planned planned(2, 2);
  auto nodes = wireguardOf(planned, "10.1.0.0/24");
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_STREQ(peersOf(nodes, 0).cStr(),
               "10.1.0.3/24 10.5.0.3:51111 10.1.0.3/32; 10.1.0.4/24  10.1.0.4/32; "
               "10.1.0.5/24  10.1.0.5/32");
  EXPECT_STREQ(peersOf(nodes, 2).cStr(),
               "10.1.0.2/24 10.5.0.2:51111 10.1.0.0/24; 10.1.0.3/24 10.5.0.3:51111 10.1.0.3/32");
  auto first = nodes[0].get().getMachine().getNetwork().getInterfaces()[0];
  EXPECT_STREQ(first.getInterface().cStr(), "wg0");
  EXPECT_EQ(first.getMtu(), 1500u);
  EXPECT_EQ(first.getWireguard().getListenPort(), 51111);
  auto worker = nodes[2].get().getMachine().getNetwork().getInterfaces()[0];
  EXPECT_EQ(worker.getWireguard().getListenPort(), 0);
}

// Catches: other output than that of the documents for the smallest cluster.
TEST(WireguardPatches, OneAndOneAreAsDocumented) {
  Planned planned(1, 1);
  auto nodes = wireguardOf(planned, "10.1.0.0/24");
  EXPECT_STREQ(peersOf(nodes, 1).cStr(), "10.1.0.2/24 10.5.0.2:51111 10.1.0.0/24");
}

TEST(WireguardPatches, AnAloneNodeHasNoPeers) {
  Planned planned(1, 0);
  EXPECT_STREQ(peersOf(wireguardOf(planned, "10.1.0.0/30"), 0).cStr(), "");
}

// Catches: the broadcast address as a node's address; a network that hides the nodes' own.
TEST(WireguardPatches, NetworksThatCannotBe) {
  struct {
    kj::StringPtr cidr, error;
  } table[] = {
      {"10.1.0.0", "is not a valid IPv4 network"},
      {"fd00::/64", "is not a valid IPv4 network"},
      {"0.0.0.0/0", "is not a valid IPv4 network"},
      {"10.1.0.1/24", "did you mean 10.1.0.0/24?"},
      {"10.5.0.0/25", "overlaps the network of the nodes, 10.5.0.0/24"},
      {"10.0.0.0/8", "overlaps the network of the nodes"},
      {"10.1.0.0/30", "has room for 1 nodes, not 2"},
      {"10.1.0.0/31", "has room for 0 nodes, not 2"},
  };
  Planned planned(1, 1);
  for (auto& row : table) {
    auto e =
        kj::runCatchingExceptions([&] { wireguardPatches(planned.cluster.asReader(), row.cidr); });
    ASSERT_TRUE(e != nullptr) << row.cidr.cStr();
    auto message = messageOf(KJ_ASSERT_NONNULL(e));
    EXPECT_THAT(message.cStr(), HasSubstr(row.error.cStr()));
    EXPECT_TRUE(message.startsWith("--wireguard-cidr: ")) << message.cStr();
  }
}

TEST(NodePatches, RegistriesAndNetworkPlugin) {
  auto hosts = kj::arr(kj::str("10.5.0.1:5000"), kj::str("registry.example.org"));
  auto machine = patched(insecureRegistries(hosts), config::MachineType::WORKER);
  auto entries = machine.get().getMachine().getRegistries().getConfig();
  ASSERT_EQ(entries.size(), 2u);
  for (auto entry : entries) EXPECT_TRUE(entry.getValue().getTls().getInsecureSkipVerify());
  auto slash = kj::arr(kj::str("https://10.5.0.1"));
  EXPECT_THROW(insecureRegistries(slash), kj::Exception);

  auto cni = patched(customCni("https://example.org/cni.yaml"), config::MachineType::CONTROLPLANE);
  auto network = cni.get().getCluster().getNetwork().getCni();
  EXPECT_EQ(network.getName(), config::CniName::CUSTOM);
  EXPECT_STREQ(network.getUrls()[0].cStr(), "https://example.org/cni.yaml");
}

// Catches: a foreign config whose node has another node's address, no route or no time server.
TEST(NodePatches, SettingsOfANodeAreThoseOfItsPlace) {
  auto list = [](kj::StringPtr text) { return kj::arr(kj::str(text)); };
  auto servers = list("10.5.0.1"), sans = list("127.1.2.3");
  config::NodeSettings settings;
  settings.hostname = "demo-worker-1";
  settings.cidr = "10.5.0.4/24";
  settings.gateway = "10.5.0.1";
  settings.nameservers = settings.timeServers = servers;
  auto worker = patched(settingsPatch(settings), config::MachineType::WORKER);
  auto machine = worker.get().getMachine();
  auto link = machine.getNetwork().getInterfaces()[0];
  EXPECT_STREQ(machine.getNetwork().getHostname().cStr(), "demo-worker-1");
  EXPECT_STREQ(link.getInterface().cStr(), "eth0");
  EXPECT_STREQ(link.getCidr().cStr(), "10.5.0.4/24");
  EXPECT_STREQ(link.getRoutes()[0].getGateway().cStr(), "10.5.0.1");
  EXPECT_STREQ(machine.getNetwork().getNameservers()[0].cStr(), "10.5.0.1");
  EXPECT_STREQ(machine.getTime().getServers()[0].cStr(), "10.5.0.1");
  settings.certSans = sans;
  auto master = patched(settingsPatch(settings), config::MachineType::CONTROLPLANE);
  EXPECT_STREQ(master.get().getMachine().getCertSANs()[0].cStr(), "127.1.2.3");
}

// Catches: a container whose link is configured both by its launcher and by its config.
TEST(NodePatches, ALinkThatSomebodyElseConfiguresIsLeftToThem) {
  config::NodeSettings settings;
  settings.hostname = "demo-worker-1";
  settings.ignoreInterface = true;
  auto worker = patched(settingsPatch(settings), config::MachineType::WORKER);
  auto link = worker.get().getMachine().getNetwork().getInterfaces()[0];
  EXPECT_STREQ(link.getInterface().cStr(), "eth0");
  EXPECT_TRUE(link.getIgnore());
  EXPECT_STREQ(link.getCidr().cStr(), "");
  EXPECT_EQ(link.getRoutes().size(), 0u);
}

}  // namespace
}  // namespace talos::cluster
