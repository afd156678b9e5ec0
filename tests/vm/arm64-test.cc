// The image for arm64 (`make image ARCH=arm64 PLATFORM=metal`) on QEMU's machine "virt", started by
// UEFI from its disk: maintenance mode, a config, an answer with the config's keys, and shutdown.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/vm/lone-machine.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
namespace fs = std::filesystem;

constexpr double kUp = 900;  // emulated, beside whatever else runs
constexpr uintmax_t kMachineDisk = 3ull << 30;

// A disk for a machine, from the file that a user writes to it.
std::string writtenDisk() {
  auto packed = LoneMachine::image("../image-arm64/metal-arm64.raw.zst");
  auto disk = (fs::temp_directory_path() / "talos-arm64-disk").string();
  auto unpacked = harness::run({"zstd", "-q", "-d", "-f", packed, "-o", disk}, 300);
  EXPECT_EQ(unpacked.status, 0) << unpacked.err << "; make image ARCH=arm64 PLATFORM=metal first";
  fs::resize_file(disk, kMachineDisk);
  return disk;
}

}  // namespace

// Catches: a loader or kernel that UEFI of arm64 does not start, a program or library of another
// architecture in the image, rights of a confined program that the C library of arm64 does not
// start with, an answer with the name of another architecture, a machine that stays on.
TEST(Arm64, StartsFromItsDiskAndIsConfigured) {
  LoneMachine machine({.architecture = LoneMachine::Architecture::kArm64, .disk = writtenDisk()});
  ASSERT_TRUE(eventually([&] { return contains(machine.unproven({"disks"}).out, "vda"); }, kUp, 1))
      << machine.console();
  auto waiting = machine.unproven({"version"});
  EXPECT_TRUE(contains(waiting.out, "linux/arm64")) << waiting.out << waiting.err;
  auto config = machine.path("config.yaml");
  std::ofstream(config) << machine.generate();
  auto applied = machine.unproven({"apply-config", "--file", config});
  ASSERT_EQ(applied.status, 0) << applied.out << applied.err << machine.console();
  auto version = [&] { return machine.at({"version"}); };
  ASSERT_TRUE(eventually([&] { return contains(version().out, "linux/arm64"); }, kUp, 1))
      << version().out << version().err << machine.console();
  auto shows = [&](const std::string& service, const char* line) {
    auto state = [&] { return machine.at({"service", service}).out; };
    EXPECT_TRUE(eventually([&] { return std::regex_search(state(), std::regex(line)); }, kUp, 1))
        << service << ":\n"
        << state() << machine.console();
  };
  for (auto service : {"machined", "apid", "trustd", "networkd", "kubed", "etcd-supervisor", "cri",
                       "dbus-daemon", "login1"}) {
    shows(service, "STATE +Running");
  }
  machine.at({"bootstrap"});  // it continues after the client has stopped waiting
  shows("etcd", "HEALTH +OK");
  auto services = machine.at({"services"});
  EXPECT_EQ(services.status, 0) << services.err;
  printf("%s%s", version().out.c_str(), services.out.c_str());
  auto mounts = machine.at({"mounts"}).out;
  EXPECT_TRUE(contains(mounts, "/system/state")) << mounts;
  auto cmdline = machine.at({"read", "/proc/cmdline"}).out;
  EXPECT_TRUE(contains(cmdline, "talos.slot=A")) << cmdline;
  EXPECT_TRUE(contains(cmdline, "console=ttyAMA0")) << cmdline;
  EXPECT_EQ(machine.at({"shutdown", "--wait=false"}).status, 0);
  EXPECT_EQ(machine.turnsOff(kUp), 0) << machine.console();
}

}  // namespace talos::vm
