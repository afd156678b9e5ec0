// The machine config, configs of a new cluster, a client's certificate, and a reset.
#include "apid/grpc/test-machine-model.h"
#include "common/talosconfig/talosconfig.h"

namespace talos::grpcapi {
namespace {

using namespace testing;

// Catches: a config that is applied in another mode than a client, of any release, requested;
// answers that scripts do not match.
TEST_F(MachineMethodsTest, ApplyConfiguration) {
  auto apply = [&](std::initializer_list<std::pair<uint32_t, uint64_t>> marks) {
    TestCall call("/machine.MachineService/ApplyConfiguration", request([&](WireWriter& out) {
                    out.text(1, "machine: {}\n");
                    for (auto& [number, value] : marks) out.varint(number, value);
                    out.bytes(6, "\x08\x05"_kj.asBytes());
                  }));
    EXPECT_EQ("0 ", run(call));
    return call.message(0).in(1);
  };
  auto plain = apply({});
  EXPECT_EQ(rpc::ApplyMode::REBOOT, bed.mode);
  EXPECT_EQ("machine: {}\n", bed.document);
  EXPECT_EQ(5000u, bed.tryTimeoutMs);
  EXPECT_EQ("a warning", plain.text(2));
  EXPECT_EQ("Applied configuration with a reboot", plain.text(4));
  apply({{2, 1}, {3, 1}});
  EXPECT_EQ(rpc::ApplyMode::NO_REBOOT, bed.mode) << "immediate of 0.9 wins";
  apply({{2, 1}});
  EXPECT_EQ(rpc::ApplyMode::STAGED, bed.mode);
  auto automatic = apply({{4, 1}});
  EXPECT_EQ(rpc::ApplyMode::AUTO, bed.mode);
  EXPECT_EQ(2u, automatic.number(3));
  EXPECT_EQ("Applied configuration without a reboot", automatic.text(4));
  auto trial = apply({{4, 4}});
  EXPECT_EQ(rpc::ApplyMode::TRY, bed.mode);
  EXPECT_EQ("The config is applied in 'try' mode and will be reverted in 5s", trial.text(4));
  EXPECT_FALSE(bed.dryRun);
  auto dry = apply({{4, 2}, {5, 1}});
  EXPECT_TRUE(bed.dryRun);
  EXPECT_NE(std::string::npos, dry.text(4).find("(skipped in dry-run)"));
  EXPECT_NE(std::string::npos, dry.text(4).find("+ b"));
  TestCall unknown("/machine.MachineService/ApplyConfiguration",
                   request([](WireWriter& out) { out.varint(4, 9); }));
  EXPECT_EQ("3 9 is not a mode of applying a config", run(unknown));
}

TEST_F(MachineMethodsTest, GenerateConfiguration) {
  auto asked = [](bool interfaces) {
    return request([&](WireWriter& out) {
      WireWriter cluster, plane, machine, install;
      plane.text(1, "https://10.0.0.1:6443");
      cluster.text(1, "one");
      cluster.bytes(2, plane.written());
      install.text(1, "/dev/vda");
      machine.varint(1, 3);
      machine.bytes(2, install.written());
      if (interfaces) machine.bytes(3, "\x0a\x01x"_kj.asBytes());
      out.bytes(2, cluster.written());
      out.bytes(3, machine.written());
    });
  };
  TestCall call("/machine.MachineService/GenerateConfiguration", asked(false));
  EXPECT_EQ("0 ", run(call));
  EXPECT_EQ("content of join.yaml", call.message(0).in(1).text(2));
  EXPECT_EQ("content of talosconfig", call.message(0).in(1).text(3));
  TestCall network("/machine.MachineService/GenerateConfiguration", asked(true));
  EXPECT_EQ("12 network is not supported", run(network)) << "it would be without its addresses";
}

// Catches: a certificate that is not for the key, without the roles, or for another time.
TEST_F(MachineMethodsTest, GenerateClientConfiguration) {
  TestCall call("/machine.MachineService/GenerateClientConfiguration", request([](WireWriter& out) {
                  out.text(1, "os:reader");
                  out.bytes(2, "\x08\x90\x1c"_kj.asBytes());
                }));
  EXPECT_EQ("0 ", run(call));
  EXPECT_EQ(std::vector<std::string>{"os:reader"}, bed.roles);
  EXPECT_EQ(3600u, bed.lifetimeS);
  auto reply = call.message(0).in(1);
  auto made = Talosconfig::parse(kj::StringPtr(reply.text(5).c_str()), "talosconfig");
  auto& context = made.resolve();
  pki::checkPair(context.certificate, context.key);
  EXPECT_EQ(reply.text(3), context.certificate.cStr());
  EXPECT_EQ(reply.text(2), bed.authority.certificate.cStr());
}

// Catches: a key that is made for a caller without the role; a call without a record, or with
// another role in its error.
TEST_F(MachineMethodsTest, NoKeyForWhoMayNotHaveACertificate) {
  bed.admin = false;
  TestCall call("/machine.MachineService/GenerateClientConfiguration");
  EXPECT_EQ("7 not authorized: Machine.clientCertificate needs the role os:admin", run(call));
  EXPECT_EQ("", bed.refusedRequest);
}

// Catches: a request that grows to many times its size in memory, before any check of roles.
TEST_F(MachineMethodsTest, NotMoreThanThereAre) {
  auto times = [](uint32_t field, size_t count) {
    return request([&](WireWriter& out) {
      for (size_t i = 0; i < count; ++i) out.bytes(field, nullptr);
    });
  };
  TestCall most("/machine.MachineService/GenerateClientConfiguration", times(1, 64));
  EXPECT_EQ("0 ", run(most));
  EXPECT_EQ(64u, bed.roles.size());
  TestCall roles("/machine.MachineService/GenerateClientConfiguration", times(1, 65));
  EXPECT_EQ("3 field 1 occurs 65 times; at most 64 are accepted", run(roles));
  TestCall labels("/machine.MachineService/Reset", times(3, 65));
  EXPECT_EQ("3 field 3 occurs 65 times; at most 64 are accepted", run(labels));
  EXPECT_EQ(64u, bed.roles.size());
  EXPECT_EQ(0, bed.resets);
}

// Catches: a reset that erases more than the client requested.
TEST_F(MachineMethodsTest, Reset) {
  auto reset = [&](kj::Function<void(WireWriter&)> fill) {
    TestCall call("/machine.MachineService/Reset", request(kj::mv(fill)));
    return run(call);
  };
  auto partition = [](WireWriter& out, const char* label, bool wipe) {
    WireWriter one;
    one.text(1, label);
    if (wipe) one.varint(2, 1);
    out.bytes(3, one.written());
  };
  EXPECT_EQ("0 ", reset([&](WireWriter& out) {
              out.varint(1, 1);
              partition(out, "STATE", false);
              partition(out, "EPHEMERAL", true);
            }));
  EXPECT_EQ(std::vector<std::string>{"EPHEMERAL"}, bed.labels);
  EXPECT_TRUE(bed.graceful);
  EXPECT_FALSE(bed.reboot);
  EXPECT_EQ("3 none of the partitions has wipe set",
            reset([&](WireWriter& out) { partition(out, "STATE", false); }));
  EXPECT_EQ("12 erasing user disks is not supported",
            reset([](WireWriter& out) { out.text(4, "/dev/vdb"); }));
  EXPECT_EQ("12 erasing user disks is not supported",
            reset([](WireWriter& out) { out.varint(5, 2); }));
  EXPECT_EQ(1, bed.resets);
}

// Catches: a device that the client did not name, or a check that it wants to be skipped and that
// is silently made, or not made.
TEST_F(MachineMethodsTest, BlockDeviceWipe) {
  struct Device {
    const char* name;
    uint32_t field;
    uint64_t value;
  };
  auto wipe = [&](std::vector<Device> devices) {
    TestCall call("/storage.StorageService/BlockDeviceWipe", request([&](WireWriter& out) {
                    for (auto& device : devices) {
                      WireWriter one;
                      one.text(1, device.name);
                      if (device.value != 0) one.varint(device.field, device.value);
                      out.bytes(1, one.written());
                    }
                  }));
    return run(call);
  };
  EXPECT_EQ("0 ", wipe({{"vdb", 2, 0}, {"vdc1", 2, 0}}));
  EXPECT_EQ("wipe vdb vdc1", bed.wiped);
  EXPECT_EQ("0 ", wipe({{"vdb", 2, 1}}));
  EXPECT_EQ("zero vdb", bed.wiped);
  bed.wiped = "";
  EXPECT_EQ("3 wipe devices with one method at a time", wipe({{"vdb", 2, 1}, {"vdc", 2, 0}}));
  EXPECT_EQ("3 2 is not a method of wiping a device", wipe({{"vdb", 2, 2}}));
  EXPECT_EQ("3 what uses a device is always checked", wipe({{"vdb", 3, 1}}));
  EXPECT_EQ("3 what uses a device is always checked", wipe({{"vdb", 5, 1}}));
  EXPECT_EQ("3 wipe the disk to remove its partitions", wipe({{"vdb", 4, 1}}));
  EXPECT_EQ("", bed.wiped);
}

}  // namespace
}  // namespace talos::grpcapi
