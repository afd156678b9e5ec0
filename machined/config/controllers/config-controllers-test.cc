// What is read of the machine config, and the machine type that follows it.
#include <kj/encoding.h>

#include "machined/config/controllers/test-machine-config.h"

namespace talos::machined {
namespace {

kj::String wholeDocument(const pki::CertificateAndKey& authority, kj::StringPtr type) {
  auto base64 = [](kj::StringPtr text) { return kj::encodeBase64(text.asBytes()); };
  auto pair =
      kj::str("{crt: ", base64(authority.certificate), ", key: ", base64(authority.key), "}");
  return kj::str(
      "version: v1alpha1\n"
      "machine:\n"
      "  type: ",
      type,
      "\n"
      "  token: abcdef.0123456789abcdef\n"
      "  ca: ",
      pair,
      "\n"
      "  certSANs: [api.example.org, 1.2.3.4]\n"
      "  network:\n"
      "    hostname: master-1\n"
      "    nameservers: [10.5.0.1]\n"
      "    interfaces:\n"
      "      - interface: eth0\n"
      "        cidr: 10.5.0.2/24\n"
      "        mtu: 1400\n"
      "        routes:\n"
      "          - network: 0.0.0.0/0\n"
      "            gateway: 10.5.0.1\n"
      "            metric: 20\n"
      "      - interface: eth1\n"
      "        ignore: true\n"
      "  install: {disk: /dev/vda}\n"
      "cluster:\n"
      "  controlPlane: {endpoint: https://10.5.0.2:6443}\n"
      "  apiServer: {certSANs: [k8s.example.org]}\n"
      "  trustd: {endpoints: [10.5.0.3], certLifetime: 30m, anyAddress: true}\n"
      "  network: {dnsDomain: cluster.local, podSubnets: [10.244.0.0/16]}\n"
      "  token: abcdef.0123456789abcdef\n"
      "  ca: ",
      pair,
      "\n"
      "  aggregatorCA: ",
      pair,
      "\n"
      "  serviceAccount: {key: ",
      base64(authority.key),
      "}\n"
      "  etcd: {ca: ",
      pair, "}\n");
}

TEST_F(ConfigTest, TheMachineTypeFollowsTheConfig) {
  auto shown = [&] {
    poll();
    return KJ_ASSERT_NONNULL(store.tryGet<rpc::MachineTypeSpec>("machine-type")).getType();
  };
  runtime.add(machineTypeController(parts));
  EXPECT_EQ(shown(), rpc::MachineType::UNKNOWN);
  publish(wholeDocument(authority, "controlplane"));
  EXPECT_EQ(shown(), rpc::MachineType::CONTROLPLANE);
  publish(wholeDocument(authority, "init"));
  EXPECT_EQ(shown(), rpc::MachineType::INIT);
  destroyRecord<rpc::MachineConfigSpec>(store, kMachineConfigId);
  EXPECT_EQ(shown(), rpc::MachineType::UNKNOWN);
}

// The document as machined stores it, to what the controllers read.
TEST_F(ConfigTest, AStoredDocumentBecomesTheView) {
  auto document = wholeDocument(authority, "controlplane");
  EXPECT_TRUE(config.view(store) == nullptr);
  publish(document);
  auto found = config.view(store);
  auto& view = KJ_ASSERT_NONNULL(found);
  EXPECT_EQ(view.type, rpc::MachineType::CONTROLPLANE);
  EXPECT_EQ(view.authority, authority.certificate);
  EXPECT_EQ(kj::StringPtr(view.authorityKey), kj::StringPtr(authority.key));
  EXPECT_EQ(joined(view.certSans), "api.example.org 1.2.3.4");
  EXPECT_EQ(joined(view.trust.hosts), "10.5.0.2 k8s.example.org 10.5.0.3");
  EXPECT_EQ(kj::StringPtr(view.trust.token), "abcdef.0123456789abcdef");
  EXPECT_EQ(view.trust.dnsDomain, "cluster.local");
  EXPECT_EQ(view.trust.certLifetime / kj::MINUTES, 30);
  EXPECT_TRUE(view.trust.anyAddress);
  EXPECT_EQ(view.network.hostname, "master-1");
  EXPECT_EQ(joined(view.network.nameservers), "10.5.0.1");
  ASSERT_EQ(view.network.devices.size(), 2u);
  auto& device = view.network.devices[0];
  EXPECT_EQ(device.interface, "eth0");
  EXPECT_EQ(joined(device.addresses), "10.5.0.2/24");
  EXPECT_EQ(device.mtu, 1400u);
  ASSERT_EQ(device.routes.size(), 1u);
  EXPECT_EQ(device.routes[0].gateway, "10.5.0.1");
  EXPECT_EQ(device.routes[0].metric, 20u);
  EXPECT_TRUE(view.network.devices[1].ignore);
  EXPECT_EQ(kindOfFailure([] { viewMachineConfig("machine: [not, a, config]"); }),
            "InvalidArgument");
}

// Catches: a key of a link that is lost, or read into another one, on the way to the plan.
TEST_F(ConfigTest, TheViewHasEveryKeyThatItIsMadeOf) {
  publish(
      "machine:\n"
      "  type: controlplane\n"
      "  time: {disabled: true, servers: [ntp.example.org, 10.5.0.123]}\n"
      "  network:\n"
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
      "        ignore: true\n"
      "cluster:\n"
      "  controlPlane: {endpoint: https://10.5.0.2:6443}\n"
      "  etcd:\n"
      "    image: r/etcd:v3.5.1\n"
      "    extraArgs: {election-timeout: 5000}\n"
      "    advertisedSubnets: [10.5.0.0/24]\n"
      "    listenSubnets: [10.6.0.0/24]\n");
  auto found = config.view(store);
  auto& view = KJ_ASSERT_NONNULL(found);
  EXPECT_TRUE(view.timeDisabled);
  EXPECT_EQ(joined(view.timeServers), "ntp.example.org 10.5.0.123");
  EXPECT_EQ(joined(view.network.timeServers), "ntp.example.org 10.5.0.123");
  EXPECT_EQ(view.etcd.image, "r/etcd:v3.5.1");
  ASSERT_EQ(view.etcd.extraArgs.size(), 1u);
  EXPECT_EQ(kj::str(view.etcd.extraArgs[0].key, "=", view.etcd.extraArgs[0].value),
            "election-timeout=5000");
  EXPECT_EQ(joined(view.etcd.advertisedSubnets), "10.5.0.0/24");
  EXPECT_EQ(joined(view.etcd.listenSubnets), "10.6.0.0/24");
  auto& devices = view.network.devices;
  ASSERT_EQ(devices.size(), 4u);
  auto& eth0 = devices[0];
  EXPECT_EQ(joined(eth0.addresses), "10.5.0.2/24");
  EXPECT_TRUE(!eth0.dhcp4 && eth0.dhcp6);
  EXPECT_EQ(eth0.dhcpMetric, 7u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(eth0.vip).address, "10.5.0.9");
  EXPECT_EQ(KJ_ASSERT_NONNULL(eth0.vip).lease / kj::SECONDS, 5);
  ASSERT_EQ(eth0.routes.size(), 2u);
  auto& route = eth0.routes[0];
  EXPECT_EQ(kj::str(route.network, " ", route.gateway, " ", route.metric, " ", route.source, " ",
                    route.mtu, " ", route.onlink),
            "10.6.0.0/16 10.5.0.1 3 10.5.0.2 1300 true");
  EXPECT_EQ(eth0.routes[1].type, config::RouteType::BLACKHOLE);
  ASSERT_EQ(eth0.vlans.size(), 1u);
  auto& vlan = eth0.vlans[0];
  EXPECT_EQ(vlan.id, 8u);
  EXPECT_EQ(joined(vlan.addresses), "10.8.0.2/24 10.8.0.3/24");
  EXPECT_EQ(vlan.mtu, 1350u);
  EXPECT_TRUE(vlan.dhcp4 && vlan.dhcp6);
  EXPECT_EQ(vlan.dhcpMetric, 9u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(vlan.vip).address, "10.8.0.9");
  EXPECT_EQ(KJ_ASSERT_NONNULL(vlan.vip).lease / kj::SECONDS, 6);
  EXPECT_TRUE(devices[1].dummy);
  EXPECT_EQ(KJ_ASSERT_NONNULL(devices[2].selector).describe(),
            "busPath=00:*,hardwareAddr=52:*,permanentAddr=53:*,pciID=1af4:*,driver=virtio_net,"
            "physical");
  EXPECT_TRUE(devices[3].ignore);
}

// Catches: a view of another document than the one that is published: of the one before, of the one
// that comes next, of one that nobody has had read.
TEST_F(ConfigTest, TheViewIsOfThePublishedDocument) {
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
  EXPECT_TRUE(reader.view(store) == nullptr);
}

}  // namespace
}  // namespace talos::machined
