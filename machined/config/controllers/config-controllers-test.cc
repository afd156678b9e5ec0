// Reading the machine config, and the controllers whose only input is the config.
#include "machined/config/controllers/test-machine-config.h"

#include <kj/encoding.h>

#include "machined/config/network/network-config-plan.h"
#include "machined/platforms/platform.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

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
      "        dhcpOptions: {routeMetric: 7, ipv4: false, ipv6: true, duidv6: 0002ab}\n"
      "        vip: {ip: 10.5.0.9, leaseTTL: 5s, hcloud: {apiToken: t0}}\n"
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
      "            dhcpOptions: {routeMetric: 9, ipv6: true, duidv6: '00:02:cd'}\n"
      "            vip: {ip: 10.8.0.9, leaseTTL: 6s, hcloud: {apiToken: t1}}\n"
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
  for (auto& l : plan.links) shown.add(kj::str(l.name, ":", l.kind(), " ", l.mtu));
  for (auto& a : plan.addresses) shown.add(kj::str(a.link, " ", a.prefix));
  for (auto& r : plan.routes) {
    shown.add(kj::str(r.link, " to ", r.destination, " via ",
                      r.gateway.map([](auto& ip) { return ip.toString(); }).orDefault(kj::str()),
                      " ", r.metric, " ",
                      r.source.map([](auto& ip) { return ip.toString(); }).orDefault(kj::str()),
                      " ", r.mtu, " ", r.onlink, " ", uint(r.type)));
  }
  for (auto& o : plan.operators) {
    auto duid = o.duid.size() == 0 ? kj::str() : kj::str(" as ", kj::encodeHex(o.duid));
    shown.add(kj::str(o.kind, "/", o.link, " ", o.metric, duid));
  }
  for (auto& v : plan.vips) {
    shown.add(kj::str("vip ", v.address, " on ", v.link, " for ", v.lease / kj::SECONDS, " s at ",
                      v.hcloudToken));
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
            "dhcp6/eth0 7 as 0002ab\n"
            "ra/eth0 7 as 0002ab\n"
            "dhcp4/eth0.8 9\n"
            "dhcp6/eth0.8 9 as 0002cd\n"
            "ra/eth0.8 9 as 0002cd\n"
            "ra/dummy0 1024\n"
            "vip 10.5.0.9 on eth0 for 5 s at t0\n"
            "vip 10.8.0.9 on eth0.8 for 6 s at t1\n"
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

// Catches: a missing feature that is reported as on, a feature without a record, and the name of
// another cluster.
TEST_F(ConfigTest, FeaturesThatTheSystemDoesNotHaveAreOff) {
  runtime.add(featuresController(deps));
  poll();
  EXPECT_TRUE(store.tryGet<rpc::ClusterInfoSpec>("current") == nullptr) << "without a config";
  auto configOf = [](kj::StringPtr type) {
    return kj::str("version: v1alpha1\nmachine: {type: ", type, ", token: abcdef.0123456789abcdef,",
                   " install: {disk: /dev/sda}}\ncluster:\n  clusterName: one\n"
                   "  controlPlane: {endpoint: 'https://10.0.0.1:6443'}\n");
  };
  publish(configOf("controlplane"));
  poll();
  auto info = KJ_ASSERT_NONNULL(store.tryGet<rpc::ClusterInfoSpec>("current"));
  EXPECT_STREQ("one", info.getClusterName().cStr());
  EXPECT_FALSE(
      KJ_ASSERT_NONNULL(store.tryGet<rpc::DiscoveryConfigSpec>("cluster")).getDiscoveryEnabled());
  EXPECT_FALSE(
      KJ_ASSERT_NONNULL(store.tryGet<rpc::KubernetesAccessConfigSpec>("config")).getEnabled());
  publish(configOf("worker"));
  poll();
  EXPECT_TRUE(store.tryGet<rpc::KubernetesAccessConfigSpec>("config") == nullptr) << "a worker";
}

struct MetadataBlockControllerTest : public ConfigTest {
  ~MetadataBlockControllerTest() noexcept override {}

  kj::Own<Controller> controller = metadataBlockController(deps);

  // Returns the addresses after a config with these features.
  std::string follow(kj::StringPtr features) {
    publish(kj::str("machine: {type: worker", features,
                    "}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n"));
    return follow();
  }
  std::string follow() {
    controller->reconcile(store).wait(io.waitScope);
    KJ_IF_MAYBE (spec, store.tryGet<rpc::MetadataBlockSpecSpec>(deps.platform)) {
      return kj::strArray(spec->getAddresses(), " ").cStr();
    }
    return "none";
  }
};

// Catches: a pod that reaches the metadata service by default; a key without an effect; rules that
// a restarted brain removes before it knows its config. The key:
// machine.features.podMetadataAccess.
TEST_F(MetadataBlockControllerTest, TheServiceOfThePlatformUnlessTheConfigPermitsIt) {
  deps.platform = "aws";
  deps.metadataAddresses = texts({"169.254.169.254", "fd00:ec2::254"});
  EXPECT_EQ("none", follow());
  EXPECT_EQ("169.254.169.254 fd00:ec2::254", follow(""));
  EXPECT_EQ("none", follow(", features: {podMetadataAccess: true}"));
  EXPECT_EQ("169.254.169.254 fd00:ec2::254", follow(", features: {podMetadataAccess: false}"));
  MachineConfigReader restarted;
  std::swap(config, restarted);
  EXPECT_EQ("169.254.169.254 fd00:ec2::254", follow());
}

// Catches: a record without addresses, on a machine without such a service.
TEST_F(MetadataBlockControllerTest, NoServiceNoRecord) {
  deps.platform = "metal";
  EXPECT_EQ("none", follow(""));
}

// Catches: a setting of a probe that is lost or misread on the way to probed; a probe that stays
// without its document; probes that a restarted brain removes before it knows its config.
TEST_F(ConfigTest, ProbesFollowTheConfig) {
  auto controller = probeController(deps);
  auto follow = [&] {
    controller->reconcile(store).wait(io.waitScope);
    std::string all;
    for (auto spec : store.list<rpc::ProbeSpecSpec>()) {
      auto times = kj::str(spec.id(), " ", spec.getInterval(), " ", spec.getFailureThreshold());
      all += spec.hasHttp() ? kj::str(times, " GET ", spec.getHttp().getUrl(), " ",
                                      spec.getHttp().getTimeout(), "\n")
                                  .cStr()
                            : kj::str(times, " ", spec.getTcp().getEndpoint(), " ",
                                      spec.getTcp().getTimeout(), "\n")
                                  .cStr();
    }
    return all;
  };
  constexpr auto kMain = "machine: {type: worker}\n"_kj;
  constexpr auto kBegin = "---\napiVersion: v1alpha1\nkind: "_kj;
  auto tcp = kj::str(kBegin, "TCPProbeConfig\nname: a\nendpoint: 192.0.2.1:22\n"),
       http = kj::str(kBegin,
                      "HTTPProbeConfig\nname: b\nurl: http://a/?b\ninterval: 90.05s\n"
                      "failureThreshold: 3\ntimeout: 500ms\n"),
       slow = kj::str(kBegin,
                      "TCPProbeConfig\nname: c\nendpoint: '[::1]:1'\ninterval: 1h\n"
                      "timeout: 2.5s\n");
  EXPECT_EQ("", follow());
  publish(kj::str(kMain, tcp, http, slow));
  EXPECT_EQ(
      "http:http://a/?b 1m30.05s 3 GET http://a/?b 500ms\n"
      "tcp:192.0.2.1:22 1s 0 192.0.2.1:22 10s\n"
      "tcp:[::1]:1 1h0m0s 0 [::1]:1 2.5s\n",
      follow());
  publish(kj::str(kMain, tcp));
  EXPECT_EQ("tcp:192.0.2.1:22 1s 0 192.0.2.1:22 10s\n", follow());
  destroyRecord<rpc::MachineConfigSpec>(store, kMachineConfigId);
  EXPECT_EQ("tcp:192.0.2.1:22 1s 0 192.0.2.1:22 10s\n", follow());
  publish(kMain);
  EXPECT_EQ("", follow());
}

// Catches: a node that is open although its documents close it, or that keeps the rules of an
// earlier config; rules that a restarted brain removes before it knows its config; rules that do
// not know the subnets of pods.
TEST_F(ConfigTest, TheFirewallFollowsTheConfig) {
  auto controller = firewallController(deps);
  auto follow = [&] {
    controller->reconcile(store).wait(io.waitScope);
    KJ_IF_MAYBE (spec, store.tryGet<rpc::FirewallSpecSpec>("firewall")) {
      std::string text = spec->getBlock() ? "block" : "accept";
      for (auto rule : spec->getRules()) {
        text += kj::str(" ", rule.getName(), ":", rule.getPorts()[0].getLast()).cStr();
      }
      return text + kj::str(" ", kj::strArray(spec->getPodSubnets(), ","), " ",
                            kj::strArray(spec->getServiceSubnets(), ","))
                        .cStr();
    }
    return std::string("none");
  };
  constexpr auto kMain =
      "machine: {type: worker}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}, "
      "network: {podSubnets: [10.4.0.0/16], serviceSubnets: [10.5.0.0/16]}}\n"_kj;
  constexpr auto kRule =
      "---\napiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: api\nportSelector: {ports: "
      "[50000-50001], protocol: tcp}\ningress: [{subnet: 10.0.0.0/8}]\n"_kj;
  constexpr auto kBlock =
      "---\napiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: block\n"_kj;
  EXPECT_EQ("none", follow());
  publish(kMain);
  EXPECT_EQ("none", follow());
  publish(kj::str(kMain, kRule));
  EXPECT_EQ("accept api:50001 10.4.0.0/16 10.5.0.0/16", follow());
  publish(kj::str(kMain, kRule, kBlock));
  EXPECT_EQ("block api:50001 10.4.0.0/16 10.5.0.0/16", follow());
  MachineConfigReader restarted;
  std::swap(config, restarted);
  EXPECT_EQ("block api:50001 10.4.0.0/16 10.5.0.0/16", follow());
  std::swap(config, restarted);
  publish(kMain);
  EXPECT_EQ("none", follow());
}

// Catches: a setting of a driver that does not reach networkd; one that stays after its document is
// gone; specs that a restarted brain removes before it knows its config.
TEST_F(ConfigTest, TheSettingsOfDriversFollowTheConfig) {
  auto controller = ethernetController(deps);
  auto follow = [&] {
    controller->reconcile(store).wait(io.waitScope);
    KJ_IF_MAYBE (spec, store.tryGet<rpc::EthernetSpecSpec>("eth0")) {
      std::string text;
      for (auto ring : spec->getRings()) {
        text += kj::str(ring.getKey(), "=", ring.getValue(), " ").cStr();
      }
      for (auto channel : spec->getChannels()) {
        text += kj::str(channel.getKey(), "=", channel.getValue(), " ").cStr();
      }
      for (auto feature : spec->getFeatures()) {
        text += kj::str(feature.getKey(), "=", feature.getValue(), " ").cStr();
      }
      return text +
             kj::str(spec->getSetsWakeOnLan(), " ", kj::strArray(spec->getWakeOnLan(), ",")).cStr();
    }
    return std::string("none");
  };
  constexpr auto kMain =
      "machine: {type: worker}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n"_kj;
  constexpr auto kDocument =
      "---\napiVersion: v1alpha1\nkind: EthernetConfig\nname: eth0\nrings: {rx: 512}\nchannels: "
      "{combined: 4}\nfeatures: {rx-gro-hw: false}\nwakeOnLan: [magic]\n"_kj;
  constexpr auto kSet = "rx=512 combined=4 rx-gro-hw=false true magic";
  EXPECT_EQ("none", follow());
  publish(kj::str(kMain, kDocument));
  EXPECT_EQ(kSet, follow());
  MachineConfigReader restarted;
  std::swap(config, restarted);
  EXPECT_EQ(kSet, follow());
  std::swap(config, restarted);
  publish(kMain);
  EXPECT_EQ("none", follow());
}

}  // namespace

}  // namespace talos::machined
