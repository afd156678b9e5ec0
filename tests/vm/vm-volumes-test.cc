// Volumes of documents on a virtual machine with two more disks: made from nothing in spite of
// power cuts, found again, grown, encrypted, and never on a disk of others.
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
constexpr const char* kName = "volumes-master-1";

std::string userVolume(const std::string& name, const std::string& disk, const std::string& size,
                       const std::string& more = "") {
  return "---\napiVersion: v1alpha1\nkind: UserVolumeConfig\nname: " + name +
         "\nprovisioning: {diskSelector: {match: 'disk.dev_path == \"/dev/" + disk + "\"'}, " +
         size + "}\n" + more;
}

struct Node {
  cuts::VolatileCluster& cluster;

  // The image of an additional disk, from 1.
  std::string disk(int number) const {
    return cluster.stateFolder() + "/" + kName + ".user-" + std::to_string(number);
  }
  void power(const char* action) { cluster.ok({"cluster", "node", action, kName}, kUp); }
  bool booted() {
    return eventually([&] { return cluster.booted(); }, kUp, 1);
  }
  // Shows the volumes until they are so.
  bool shows(const std::string& id, const std::string& pattern) {
    harness::Result shown;
    bool is = eventually(
        [&] {
          shown =
              cluster.talosctl({"--timeout", "5s", "get", "volumestatus", id, "-o", "yaml"}, 20);
          return std::regex_search(shown.out, std::regex(pattern));
        },
        kUp, 1);
    EXPECT_TRUE(is) << shown.out << shown.err;
    return is;
  }
  // A volume is ready as soon as it is opened, and mounted then.
  bool mounted(const std::string& path) {
    return eventually([&] { return contains(mounts(), " " + path + "\n"); }, kUp, 1);
  }
  std::string mounts() { return cluster.ok({"mounts"}, 60); }
  std::string patch(const std::string& text, std::vector<std::string> more) {
    auto file = cluster.folder() + "/patch.yaml";
    std::ofstream(file) << text;
    std::vector<std::string> command = {"patch", "machineconfig", "--patch", "@" + file};
    command.insert(command.end(), more.begin(), more.end());
    auto result = cluster.talosctl(command, kUp);
    EXPECT_EQ(0, result.status) << result.err;
    return result.out + result.err;
  }
  std::string head(int number) {
    std::ifstream in(disk(number), std::ios::binary);
    std::string bytes(4 << 20, 0);
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }
};

}  // namespace

// Catches: a volume that a power cut leaves useless, that a boot makes again, that takes a disk
// with data, stops a boot, does not grow, or loses its data with its document; a dry run that says
// nothing of it; a file system whose unused blocks its disk is not told of; a file of the config
// that /etc does not get, or that keeps /var from being unmounted.
TEST(Volumes, AreMadeGrownAndTakenFromNobody) {
  auto file =
      std::filesystem::temp_directory_path() / ("volumes-" + std::to_string(getpid()) + ".yaml");
  std::ofstream(file) << userVolume("data", "vdc", "maxSize: 400MiB")
                      << "---\napiVersion: v1alpha1\nkind: EtcFileConfig\nname: a/new.conf\n"
                         "contents: as the config says\n";
  cuts::VolatileCluster cluster(
      "volumes",
      {"--masters", "1", "--workers", "0", "--memory", "512", "--no-uplink", "--wait=false",
       "--user-disk", "/var/lib/first:900MiB", "--user-disk", "/var/lib/second:700MiB",
       "--config-patch", "[{\"op\": \"remove\", \"path\": \"/machine/disks\"}]", "--config-patch",
       "@" + file.string()},
      kUp);
  std::filesystem::remove(file);
  Node node{cluster};
  for (unsigned write : {4, 30}) {
    ASSERT_TRUE(cluster.killAtWrite(kName, write, 0, 120)) << "no write " << write;
    node.power("start");
  }
  ASSERT_TRUE(node.booted()) << cluster.console(kName);
  EXPECT_TRUE(node.mounted("/var/mnt/data"));
  EXPECT_TRUE(std::regex_search(node.mounts(), std::regex("/dev/vdc1 .* /var/mnt/data\n")))
      << node.mounts();
  EXPECT_TRUE(node.shows("u-data", "phase: ready")) << cluster.console(kName);
  EXPECT_EQ("as the config says", cluster.ok({"read", "/etc/a/new.conf"}, 60));

  // Another one beside it, encrypted; the plan first.
  auto secret = userVolume("secret", "vdc", "maxSize: 200MiB",
                           "encryption: {provider: luks2, keys: [{slot: 0, static: {passphrase: "
                           "a-passphrase}}]}\n");
  EXPECT_TRUE(contains(node.patch(secret, {"--dry-run"}),
                       "makes partition u-secret of 200 MiB on /dev/vdc"));
  node.patch(secret, {"--mode", "no-reboot"});
  EXPECT_TRUE(node.shows("u-secret", "phase: ready")) << cluster.console(kName);
  EXPECT_TRUE(node.mounted("/var/mnt/secret")) << node.mounts();

  // A disk of others.
  cluster.ok({"shutdown"}, kUp);
  EXPECT_FALSE(contains(cluster.console(kName), "cannot unmount")) << cluster.console(kName);
  auto label = harness::run(
      {"sh", "-c", "echo 'label: dos\n2048,4096,c' | /usr/sbin/sfdisk -q '" + node.disk(2) + "'"});
  ASSERT_EQ(label.status, 0) << label.err;
  auto before = node.head(2);
  auto seen = cluster.console(kName).size();
  node.power("start");
  ASSERT_TRUE(node.booted()) << cluster.console(kName);
  EXPECT_TRUE(node.mounted("/var/mnt/data")) << node.mounts();
  EXPECT_TRUE(node.mounted("/var/mnt/secret")) << node.mounts();
  EXPECT_FALSE(contains(cluster.console(kName).substr(seen), "adding partition"));
  auto answer = node.patch(userVolume("other", "vdd", "minSize: 100MiB"), {"--mode", "no-reboot"});
  EXPECT_TRUE(contains(answer, "it holds 1 partition (dos): 1")) << answer;
  EXPECT_TRUE(node.shows("u-other", "phase: waiting"));
  EXPECT_EQ(before, node.head(2)) << "the disk was written to";

  // Larger, at the next boot; and without the document of the other one.
  node.patch(userVolume("secret", "vdc", "maxSize: 350MiB, grow: true"), {"--mode", "no-reboot"});
  node.patch("---\napiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\n$patch: delete\n",
             {"--mode", "no-reboot"});
  EXPECT_TRUE(eventually([&] { return !contains(node.mounts(), " /var/mnt/data\n"); }, 60, 1));
  EXPECT_TRUE(eventually(
      [&] { return contains(cluster.console(kName), "the data stay on /dev/vdc1"); }, 60, 1))
      << cluster.console(kName);
  cluster.kill(kName);
  node.power("start");
  ASSERT_TRUE(node.booted()) << cluster.console(kName);
  EXPECT_TRUE(node.shows("u-secret", "size: 367001600")) << cluster.console(kName);
  seen = cluster.console(kName).size();
  node.patch(userVolume("data", "vdc", "maxSize: 400MiB"), {"--mode", "no-reboot"});
  EXPECT_TRUE(node.shows("u-data", "phase: ready"));
  EXPECT_FALSE(contains(cluster.console(kName).substr(seen), "adding partition"));

  // Swap in what is left of the disk.
  node.patch(
      "---\napiVersion: v1alpha1\nkind: SwapVolumeConfig\nname: swap\nprovisioning: {diskSelector: "
      "{match: 'disk.dev_path == \"/dev/vdc\"'}, minSize: 100MiB}\n",
      {"--mode", "no-reboot"});
  EXPECT_TRUE(node.shows("s-swap", "phase: ready")) << cluster.console(kName);
  EXPECT_TRUE(eventually(
      [&] { return contains(cluster.talosctl({"get", "swapstatuses"}, 20).out, "/dev/vdc3"); }, 60,
      1));

  // Only a disk that nothing uses is wiped; the volume that waits for it is made then.
  for (auto used : {"vda", "vdc", "vdc1", "vdc2", "vdc3"}) {
    auto refused = cluster.talosctl({"wipe", "disk", "vdd", used}, 60);
    EXPECT_NE(0, refused.status) << used;
    EXPECT_TRUE(contains(refused.err, "nothing was wiped")) << refused.err;
  }
  EXPECT_EQ(before, node.head(2)) << "the disk was written to";
  auto wiped = cluster.talosctl({"wipe", "disk", "vdd"}, 60);
  EXPECT_EQ(0, wiped.status) << wiped.err;
  EXPECT_TRUE(contains(wiped.err, "wiping /dev/vdd")) << wiped.err;
  EXPECT_TRUE(node.shows("u-other", "phase: ready")) << cluster.console(kName);
  EXPECT_TRUE(node.mounted("/var/mnt/secret")) << node.mounts();

  // The disks learn of unused blocks, except those of an encrypted volume.
  node.patch("---\napiVersion: v1alpha1\nkind: FilesystemTrimConfig\ninterval: 1m\n",
             {"--mode", "no-reboot"});
  for (auto line :
       {"/system/state: trimmed; the disk was told of ", "/var/mnt/data: trimmed; the disk was",
        "/var/mnt/secret: not trimmed, because its disk cannot be told"}) {
    harness::Result shown;
    EXPECT_TRUE(eventually(
        [&] {
          shown = cluster.talosctl({"dmesg"}, 60);
          return contains(shown.out, line);
        },
        kUp, 5))
        << line << "\n"
        << shown.out << shown.err;
  }
}

}  // namespace talos::vm
