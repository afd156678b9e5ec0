// Reading the machine config, and the controllers whose only input is the config.
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/network/network-config-plan.h"

namespace talos::machined {
namespace {

TEST_F(ConfigTest, TheMachineTypeFollowsTheConfig) {
  auto shown = [&] {
    poll();
    return KJ_ASSERT_NONNULL(store.tryGet<rpc::MachineTypeSpec>("machine-type")).getType();
  };
  runtime.add(machineTypeController(deps));
  EXPECT_EQ(shown(), rpc::MachineType::UNKNOWN);
  publish("machine:\n  type: controlplane\n");
  EXPECT_EQ(shown(), rpc::MachineType::CONTROLPLANE);
  publish("machine:\n  type: init\n");
  EXPECT_EQ(shown(), rpc::MachineType::INIT);
  destroyRecord<rpc::MachineConfigSpec>(store, kMachineConfigId);
  EXPECT_EQ(shown(), rpc::MachineType::UNKNOWN);
}

// Catches: a key of a link that is lost, or read into another key, on the way to the plan.
TEST_F(ConfigTest, EachKeyOfALinkReachesThePlan) {
  publish(
      "machine:\n"
      "  type: controlplane\n"
      "  time: {servers: [ntp.example.org, 10.5.0.123]}\n"
      "  network:\n"
      "    hostname: master-1\n"
      "    nameservers: [10.5.0.1]\n"
      "    interfaces:\n"
      "      - interface: eth0\n"
      "        addresses: [10.5.0.2/24]\n"
      "        dhcp: true\n"
      "        dhcpOptions: {routeMetric: 7, ipv4: false, ipv6: true}\n"
      "        vip: {ip: 10.5.0.9, leaseTTL: 5s}\n"
      "        routes:\n"
      "          - {network: 10.6.0.0/16, gateway: 10.5.0.1, metric: 3, source: 10.5.0.2, mtu: "
      "1300,"
      " onlink: true}\n"
      "          - {network: 10.7.0.0/16, type: blackhole}\n"
      "        vlans:\n"
      "          - vlanId: 8\n"
      "            cidr: 10.8.0.2/24\n"
      "            addresses: [10.8.0.3/24]\n"
      "            mtu: 1350\n"
      "            dhcp: true\n"
      "            dhcpOptions: {routeMetric: 9, ipv6: true}\n"
      "            vip: {ip: 10.8.0.9, leaseTTL: 6s}\n"
      "      - interface: dummy0\n"
      "        dummy: true\n"
      "      - deviceSelector: {busPath: '00:*', hardwareAddr: '52:*', permanentAddr: '53:*',"
      " pciID: '1af4:*', driver: virtio_net, physical: true}\n"
      "      - interface: eth2\n"
      "        ignore: true\n");
  kj::Vector<KnownLink> links;
  links.add(KnownLink{.index = 2, .name = kj::str("eth2"), .hardware = true});
  auto plan = planNetwork(arguments, config.machine(store), links);
  kj::Vector<kj::String> shown;
  for (auto& l : plan.links) shown.add(kj::str(l.name, ":", l.making.kind, " ", l.mtu));
  for (auto& a : plan.addresses) shown.add(kj::str(a.link, " ", a.prefix));
  for (auto& r : plan.routes) {
    shown.add(kj::str(r.link, " to ", r.destination, " via ",
                      r.gateway.map([](auto& ip) { return ip.toString(); }).orDefault(kj::str()),
                      " ", r.metric, " ",
                      r.source.map([](auto& ip) { return ip.toString(); }).orDefault(kj::str()),
                      " ", r.mtu, " ", r.onlink, " ", uint(r.type)));
  }
  for (auto& o : plan.operators) shown.add(kj::str(o.kind, "/", o.link, " ", o.metric));
  for (auto& v : plan.vips) {
    shown.add(kj::str("vip ", v.address, " on ", v.link, " for ", v.lease / kj::SECONDS, " s"));
  }
  for (auto& u : plan.unresolved) shown.add(kj::str("? ", u.selector));
  EXPECT_EQ(std::string(kj::strArray(shown, "\n").cStr()),
            "eth0: 0\n"
            "eth0.8:vlan 1350\n"
            "dummy0:dummy 0\n"
            "eth0 10.5.0.2/24\n"
            "eth0.8 10.8.0.2/24\n"
            "eth0.8 10.8.0.3/24\n"
            "eth0 to 10.6.0.0/16 via 10.5.0.1 3 10.5.0.2 1300 true 0\n"
            " to 10.7.0.0/16 via  10  0 false 1\n"
            "dhcp6/eth0 7\n"
            "ra/eth0 7\n"
            "dhcp4/eth0.8 9\n"
            "dhcp6/eth0.8 9\n"
            "ra/eth0.8 9\n"
            "ra/dummy0 1024\n"
            "vip 10.5.0.9 on eth0 for 5 s\n"
            "vip 10.8.0.9 on eth0.8 for 6 s\n"
            "? busPath=00:*,hardwareAddr=52:*,permanentAddr=53:*,pciID=1af4:*,driver=virtio_net,"
            "physical");
  EXPECT_EQ(plan.hostname, "master-1");
  EXPECT_EQ(kj::str(plan.resolvers[0]), "10.5.0.1");
  EXPECT_EQ(joined(plan.timeServers), "ntp.example.org 10.5.0.123");
}

// Catches: a config that is not the published one: the previous one, the next one, or one that has
// not been read.
TEST_F(ConfigTest, ReadsThePublishedDocument) {
  MachineConfigReader reader;
  auto put = [&](kj::StringPtr text) {
    putRecord<rpc::MachineConfigSpec>(store, kMachineConfigId,
                                      [&](auto spec) { spec.setDocument(text); });
  };
  auto known = [&](kj::StringPtr text) {
    auto parsed = config::parse(text.asArray());
    return KnownConfig(parsed.bytes(), parsed.get());
  };
  auto init = "machine:\n    type: init\n"_kj, worker = "machine:\n    type: worker\n"_kj;
  EXPECT_TRUE(reader.document(store) == nullptr);
  put(init);
  EXPECT_TRUE(reader.document(store) == nullptr);
  reader.know(known(init));
  EXPECT_EQ(reader.machine(store).getType(), config::MachineType::INIT);
  reader.know(known(worker));
  EXPECT_EQ(reader.machine(store).getType(), config::MachineType::INIT);
  put(worker);
  EXPECT_EQ(reader.machine(store).getType(), config::MachineType::WORKER);
  EXPECT_EQ(kj::str(KJ_ASSERT_NONNULL(reader.document(store)).bytes()), worker);
  put(init);
  EXPECT_TRUE(reader.document(store) == nullptr);
  destroyRecord<rpc::MachineConfigSpec>(store, kMachineConfigId);
  EXPECT_TRUE(reader.tryConfig(store) == nullptr);
}

}  // namespace
}  // namespace talos::machined
