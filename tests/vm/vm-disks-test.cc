// Disks of machine.disks (device, partitions with size and mountpoint): made from nothing, found
// again, and never taken from anybody.
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/cuts/volatile-cluster.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kUp = harness::kBoots;
constexpr const char* kName = "userdisks-master-1";

struct Node {
  cuts::VolatileCluster& cluster;

  std::string disk() const { return cluster.stateFolder() + "/" + kName + ".user-1"; }
  void power(const char* action) { cluster.ok({"cluster", "node", action, kName}, kUp); }
  bool booted() {
    return eventually([&] { return cluster.booted(); }, kUp, 1);
  }
  bool saysProblem(const std::string& text) {
    return eventually(
        [&] { return contains(cluster.talosctl({"--timeout", "5s", "status"}, 20).out, text); },
        kUp, 1);
  }
  std::string head() {
    std::ifstream in(disk(), std::ios::binary);
    std::string bytes(4 << 20, 0);
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }
  void expectMounted() {
    auto mounts = cluster.ok({"mounts"});
    EXPECT_TRUE(std::regex_search(mounts, std::regex("/dev/vdc1 .* /var/lib/first\n"))) << mounts;
    EXPECT_TRUE(std::regex_search(mounts, std::regex("/dev/vdc2 .* /var/lib/first/second\n")))
        << mounts;
    auto listed = cluster.ok({"list", "-l", "/var/lib"});
    EXPECT_TRUE(std::regex_search(listed, std::regex("drwxr-xr-x .*first\n"))) << listed;
  }
};

}  // namespace

// Catches: disks that are not mounted, or in another order than in the config; disks that are
// formatted again at a boot, or that a power cut during their formatting leaves useless; foreign
// data that is lost; a node that does not say what prevents the use of a disk.
TEST(UserDisks, AreMadeOnceAndTakenFromNobody) {
  cuts::VolatileCluster cluster(
      "userdisks",
      {"--masters", "1", "--workers", "0", "--memory", "512", "--no-uplink", "--wait=false",
       "--user-disk", "/var/lib/first:300MiB:/var/lib/first/second:310MiB"},
      kUp);
  Node node{cluster};
  // Cuts the power in the middle of formatting, two times.
  for (unsigned write : {4, 30}) {
    ASSERT_TRUE(cluster.killAtWrite(kName, write, 0, 120)) << "no write " << write;
    node.power("start");
  }
  ASSERT_TRUE(node.booted()) << cluster.console(kName);
  node.expectMounted();
  const char* made = "creating the file system of /dev/vdc";
  EXPECT_TRUE(contains(cluster.console(kName), made)) << "what is not told below would not be seen";

  // Again: nothing is made.
  auto seen = cluster.console(kName).size();
  cluster.kill(kName);
  node.power("start");
  ASSERT_TRUE(node.booted()) << cluster.console(kName);
  node.expectMounted();
  EXPECT_FALSE(contains(cluster.console(kName).substr(seen), made)) << cluster.console(kName);
  cluster.ok({"shutdown"}, kUp);
  EXPECT_FALSE(contains(cluster.console(kName), "cannot unmount")) << cluster.console(kName);

  // A disk with foreign data.
  std::filesystem::resize_file(node.disk(), 0);
  std::filesystem::resize_file(node.disk(), uint64_t{700} << 20);
  auto label = harness::run(
      {"sh", "-c", "echo 'label: dos\n2048,4096,c' | /usr/sbin/sfdisk -q '" + node.disk() + "'"});
  ASSERT_EQ(label.status, 0) << label.err;
  auto before = node.head();
  node.power("start");
  EXPECT_TRUE(
      node.saysProblem("machine.disks: /dev/vdc cannot be used: it holds 1 partition (dos): 1"))
      << cluster.console(kName);
  EXPECT_EQ(before, node.head()) << "the disk was written to";
}

}  // namespace talos::vm
