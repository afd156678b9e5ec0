// What is read of the machine config, and the machine type that follows it.
#include <kj/encoding.h>

#include "machined/controllers/test-machine-config.h"

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
