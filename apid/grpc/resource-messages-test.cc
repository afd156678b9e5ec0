// The messages that Talos' typed readers decode: empty bytes would be zeros, not an error.
#include "apid/grpc/resource-messages.h"

#include "apid/grpc/test-grpc-api.h"
#include "common/base/resource.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::grpcapi {
namespace {

using testing::Message;

struct MessagesTest : ::testing::Test {
  ~MessagesTest() noexcept override {}
  ResourceMessages messages;

  template <typename Spec>
  Message of(kj::Function<void(typename Spec::Builder)> fill) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    resource.initMetadata().setType(typeName<Spec>());
    fill(resource.initSpec().initAs<Spec>());
    auto bytes = messages.cosi(resource.asReader(), {"", typeName<Spec>()});
    return Message(bytes.asPtr()).in(2).in(1);
  }
};

// Catches: a type that is served as YAML alone; a number that is another field's.
TEST_F(MessagesTest, OfTheMachine) {
  auto service = of<rpc::ServiceSpec>([](auto spec) {
    spec.setRunning(true);
    spec.setHealthy(true);
  });
  EXPECT_EQ(1u, service.number(1));
  EXPECT_EQ(1u, service.number(2));
  auto time = of<rpc::TimeStatusSpec>([](auto spec) { spec.setEpoch(7); });
  EXPECT_EQ(0u, time.number(1));
  EXPECT_EQ(7u, time.number(2));
  auto platform = of<rpc::PlatformMetadataSpec>([](auto spec) { spec.setPlatform("metal"); });
  EXPECT_EQ("metal", platform.text(1));
  auto cache = of<rpc::ImageCacheConfigSpec>([](auto spec) {
    spec.setStatus("disabled");
    spec.setCopyStatus("skipped");
  });
  EXPECT_EQ(1u, cache.number(1));
  EXPECT_EQ(1u, cache.number(3));
  EXPECT_EQ("0000000000abc123", of<rpc::LocalEtcdMemberSpec>([](auto spec) {
                                  spec.setMemberId("0000000000abc123");
                                }).text(1));
  auto processor = of<rpc::ProcessorSpec>([](auto spec) { spec.setThreadCount(4); });
  EXPECT_EQ(4u, processor.number(12));
}

// Catches: a client that edits or patches the first document of a config, and applies it without
// the others; a config of one document that older clients cannot edit.
TEST_F(MessagesTest, OfAConfigHasEachDocument) {
  auto cosi = [&](kj::StringPtr config) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    resource.initMetadata().setType(typeName<rpc::MachineConfigSpec>());
    resource.initSpec().initAs<rpc::MachineConfigSpec>().setDocument(config);
    return std::pair(Message(messages.cosi(resource, {"", typeName<rpc::MachineConfigSpec>()})),
                     Message(messages.old(resource)));
  };
  auto several = "machine:\n    type: worker\n---\nkind: A\n"_kj;
  auto [now, before] = cosi(several);
  EXPECT_EQ("talos.dev/yaml-spec", now.in(1).in(11).text(1));
  EXPECT_EQ("1", now.in(1).in(11).text(2));
  EXPECT_EQ("\"machine:\\n    type: worker\\n---\\nkind: A\\n\"\n", now.in(2).text(2));
  EXPECT_EQ(several.cStr(), now.in(2).in(1).text(1));
  EXPECT_EQ(now.in(2).text(2), before.in(2).text(1));
  auto [one, oneBefore] = cosi("---\nmachine:\n    type: worker\n");
  EXPECT_FALSE(one.in(1).has(11));
  EXPECT_EQ("machine:\n    type: worker\n", one.in(2).text(2));
  EXPECT_EQ(one.in(2).text(2), oneBefore.in(2).text(1));
}

TEST_F(MessagesTest, OfDisksAndAddresses) {
  auto volume = of<rpc::VolumeStatusSpec>([](auto spec) {
    spec.setPhase("ready");
    spec.setFilesystem("xfs");
    spec.setEncryptionProvider("luks2");
    spec.setMountLocation("/dev/vda5");
  });
  EXPECT_EQ(6u, volume.number(1));
  EXPECT_EQ(1u, volume.number(10));
  EXPECT_EQ(1u, volume.number(12));
  EXPECT_EQ("/dev/vda5", volume.text(11));
  EXPECT_FALSE(of<rpc::VolumeStatusSpec>([](auto spec) { spec.setPhase("waiting"); }).has(1));
  auto mount = of<rpc::MountStatusSpec>([](auto spec) { spec.setSource("/dev/vda6"); });
  EXPECT_EQ("/dev/vda6", mount.text(1));
  auto disk = of<rpc::DiskSpec>([](auto spec) {
    spec.setSize(7);
    spec.setModel("M");
    spec.setTransport("nvme");
    spec.setRotational(true);
    spec.setDevPath("/dev/sda");
  });
  EXPECT_EQ(7u, disk.number(1));
  EXPECT_EQ("M", disk.text(5));
  EXPECT_EQ("nvme", disk.text(11));
  EXPECT_EQ(1u, disk.number(12));
  EXPECT_EQ("/dev/sda", disk.text(14));
  auto system = of<rpc::SystemDiskSpec>([](auto spec) { spec.setDiskId("vda"); });
  EXPECT_EQ("vda", system.text(1));
  auto address = of<rpc::AddressStatusSpec>([](auto spec) {
    spec.setAddress("10.5.0.2/24");
    spec.setLinkName("eth0");
    spec.setFamily("inet4");
    spec.setScope("host");
  });
  EXPECT_EQ(24u, address.in(1).number(2));
  EXPECT_EQ("eth0", address.text(7));
  EXPECT_EQ(2u, address.number(8));
  EXPECT_EQ(254u, address.number(9));
}

// Catches: a route of a VRF that clients take for one of the main table.
TEST_F(MessagesTest, OfRoutesInTables) {
  const std::pair<const char*, uint64_t> rows[] = {
      {"main", 254}, {"77", 77}, {"local", 255}, {"", 254}};
  for (auto& [table, number] : rows) {
    auto route = of<rpc::RouteStatusSpec>([&](auto spec) { spec.setTable(table); });
    EXPECT_EQ(number, route.number(7)) << table;
  }
}

// Catches: a member under the other kind's name that is not the local one; a local member that is
// not found.
TEST_F(MessagesTest, TheLocalMemberOfEtcdIsAKindOfItsOwn) {
  Kind members{"etcd", "EtcdMembers.etcd.talos.dev"};
  EXPECT_EQ("LocalEtcdMembers.etcd.talos.dev", messages.oursOf(members, "local").type);
  EXPECT_EQ("EtcdMembers.etcd.talos.dev", messages.oursOf(members, "").type);
  EXPECT_EQ("EtcdMembers.etcd.talos.dev", messages.oursOf(members, "abc").type);
}

// Catches: a kind that clients request and whose name no node knows; they give up then.
TEST_F(MessagesTest, KindsThatClientsAskForAreRegistered) {
  for (auto name :
       {"SecurityStates.talos.dev", "DiscoveryConfigs.cluster.talos.dev",
        "ImageCacheConfigs.cri.talos.dev", "PlatformMetadatas.talos.dev",
        "EtcFileStatuses.files.talos.dev", "Infos.cluster.talos.dev",
        "Identities.cluster.talos.dev", "Affiliates.cluster.talos.dev",
        "SystemInformations.hardware.talos.dev", "Diagnostics.runtime.talos.dev",
        "ExtensionStatuses.runtime.talos.dev", "Disks.block.talos.dev",
        "SystemDisks.block.talos.dev", "NfTablesChains.net.talos.dev",
        "SiderolinkStatuses.siderolink.talos.dev", "KubeSpanPeerStatuses.kubespan.talos.dev",
        "KubernetesAccessConfigs.cluster.talos.dev", "WatchdogTimerStatuses.runtime.talos.dev"}) {
    EXPECT_TRUE(messages.types().byName(name) != nullptr) << name;
  }
}

}  // namespace
}  // namespace talos::grpcapi
