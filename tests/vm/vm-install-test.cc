// Machines that install themselves on their disk and start from it, by a BIOS and by UEFI; disks
// that they must not or cannot be installed on; and power cuts in the middle.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/cuts/installed.h"
#include "tests/cuts/recording.h"
#include "tests/harness/cluster.h"

namespace talos::vm {
namespace {

using cuts::VolatileCluster;
using harness::contains;
using harness::eventually;
using harness::slurp;

constexpr double kUp = 480;  // emulated, beside whatever else runs

std::vector<std::string> flags(std::vector<std::string> more) {
  std::vector<std::string> all = {"--masters", "1",           "--workers",  "0",
                                  "--memory",  "1024",        "--disk",     "2048",
                                  "--cidr",    "10.5.0.0/24", "--no-uplink"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

struct Node {
  VolatileCluster& cluster;
  std::string name;

  std::string disk() const { return cluster.stateFolder() + "/" + name + ".disk"; }
  std::string config() const { return cluster.stateFolder() + "/" + name + ".yaml"; }
  void power(const char* action) { cluster.ok({"cluster", "node", action, name}, 120); }

  bool isUp() {
    auto services = cluster.talosctl({"--timeout", "5s", "services"}, 20);
    return services.status == 0 && contains(services.out, "trustd") &&
           harness::allServicesUp(services.out);
  }
  bool waitUp() {
    return eventually([&] { return isUp(); }, kUp, 1);
  }
  // Read by `talosctl`, whatever the node is doing.
  std::string read(const char* path) { return cluster.talosctl({"read", path}, 30).out; }
  std::string bootId() {
    return cluster.talosctl({"--timeout", "5s", "read", "/proc/sys/kernel/random/boot_id"}, 20).out;
  }
  // The time at which a folder that machined makes once was made.
  std::string ageOfVar() {
    auto listed = cluster.ok({"list", "-l", "/var/system/overlays"});
    std::smatch match;
    KJ_REQUIRE(std::regex_search(listed, match, std::regex(R"((\w+ +\d+ [\d:]+) +opt-diff)")),
               listed.c_str());
    return match[1].str();
  }
  bool saysProblem(const std::string& text) {
    return eventually(
        [&] { return contains(cluster.talosctl({"--timeout", "5s", "status"}, 20).out, text); },
        kUp, 1);
  }
  void replaceInConfig(const std::string& from, const std::string& to) {
    auto text = slurp(config());
    auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << "\n" << text;
    text.replace(at, from.size(), to);
    std::ofstream(config()) << text;
  }
};

void expectInstalled(Node& node) {
  auto arguments = node.read("/proc/cmdline");
  EXPECT_TRUE(contains(arguments, "BOOT_IMAGE=/A/vmlinuz")) << arguments;
  EXPECT_TRUE(contains(arguments, "talos.slot=A")) << arguments;
  auto mounts = node.cluster.ok({"mounts"});
  EXPECT_TRUE(std::regex_search(mounts, std::regex("/dev/vda5 .* /system/state\n"))) << mounts;
  EXPECT_TRUE(std::regex_search(mounts, std::regex("/dev/vda6 .* /var\n"))) << mounts;
  auto state = node.cluster.ok({"list", "-l", "/system/state"});
  EXPECT_TRUE(std::regex_search(state, std::regex("-rw------- .* config.yaml\n"))) << state;
  EXPECT_EQ(node.read("/system/state/config.yaml"), slurp(node.config()));
}

// Cuts the power at any write of the recorded installation, with any part of the unflushed writes
// on the disk. Returns samples of the disks, in `folder`.
std::vector<cuts::Sample> cutInstallation(const Node& node, const cuts::Recording& recording,
                                          const std::string& folder) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  cuts::Installation whole;
  {
    cuts::Scratch end;
    cuts::Replay replay(scope, recording.log(), end.path());
    replay.cut(replay.events(), cuts::Replay::When::kBefore, 0,
               [&] { whole = cuts::readInstallation(replay.images()[0], end.path()); });
    EXPECT_EQ(whole.config, slurp(node.config()));
  }
  cuts::Replay replay(scope, recording.log(), folder);
  auto& image = replay.images()[0];
  cuts::Outcomes outcomes("an installation");
  auto chosen = cuts::chooseCuts(replay, {{0, replay.events(), true}}, cuts::cutsToMake(40));
  auto samples = cuts::replayCuts(
      replay, chosen, outcomes,
      [&](const cuts::CutAt& cut) {
        auto state = cuts::stateOfInstallation(image, whole, folder);
        KJ_REQUIRE(cut.when == cuts::Replay::When::kAt || state == "installed");
        return state;
      },
      cuts::samplesToBoot(), folder);
  EXPECT_GT(outcomes.of("unfinished"), 0u);
  EXPECT_GT(outcomes.of("installed"), 0u);
  return samples;
}

}  // namespace

// Catches: an installation that does not start, a config or secrets that are lost with it, a /var
// that is memory; a reboot that loses or damages them; a disk that grows and is not used; a value
// of META that was answered and is lost with the power.
TEST(Install, ByBiosAndBackAgain) {
  VolatileCluster cluster("installbios", flags({"--with-bootloader"}), 300);
  Node node{cluster, "installbios-master-1"};
  ASSERT_TRUE(node.waitUp());
  expectInstalled(node);
  auto age = node.ageOfVar();
  auto first = node.bootId();

  node.cluster.ok({"reboot"}, kUp);  // answers when it is back
  ASSERT_TRUE(eventually([&] { return !node.bootId().empty() && node.bootId() != first; }, kUp, 1));
  ASSERT_TRUE(node.waitUp());
  expectInstalled(node);
  EXPECT_EQ(node.ageOfVar(), age);
  auto console = cluster.console(node.name);
  EXPECT_FALSE(contains(console, "cannot unmount")) << console;

  EXPECT_EQ(cluster.ok({"meta", "read"}), "NODE   KEY   VALUE\n");
  cluster.ok({"meta", "write", "0x20", "kept"});
  cluster.ok({"meta", "write", "6", "A"});
  cluster.ok({"meta", "write", "33", "dropped"});
  cluster.ok({"meta", "delete", "33"});

  // A power cut; and the disk is larger when the power is back.
  cluster.kill(node.name);
  std::filesystem::resize_file(node.disk(), uint64_t{4096} << 20);
  node.power("start");
  ASSERT_TRUE(node.waitUp());
  expectInstalled(node);
  EXPECT_EQ(node.ageOfVar(), age);
  auto mounts = cluster.ok({"mounts"});
  std::smatch size;
  ASSERT_TRUE(std::regex_search(mounts, size, std::regex(R"(/dev/vda6 +(\d+\.\d+))"))) << mounts;
  EXPECT_GT(std::stod(size[1].str()), 3.0) << mounts;
  auto values = cluster.ok({"meta", "read"});
  EXPECT_TRUE(std::regex_search(
      values, std::regex("^NODE +KEY +VALUE\n10.5.0.2 +6 +A\n10.5.0.2 +32 +kept\n$")))
      << values;
}

// Catches: a boot loader that only a BIOS finds; a reset of a whole disk after which it cannot be
// installed on again, or still has data.
TEST(Install, ByUefi) {
  VolatileCluster cluster("installuefi", flags({"--with-uefi"}), 300);
  Node node{cluster, "installuefi-master-1"};
  ASSERT_TRUE(node.waitUp());
  expectInstalled(node);
  auto firmware = cluster.ok({"list", "/sys/firmware"});
  EXPECT_TRUE(contains(firmware, "efi")) << firmware;

  auto installations = [&] {
    auto console = cluster.console(node.name);
    size_t count = 0;
    for (size_t at = 0; (at = console.find("installing on /dev/vda", at)) != std::string::npos;
         ++at)
      ++count;
    return count;
  };
  auto before = installations();
  auto age = node.ageOfVar();
  auto reset = cluster.talosctl({"reset", "--reboot", "--wait=false"}, 60);
  EXPECT_EQ(reset.status, 0) << reset.err;
  EXPECT_TRUE(contains(reset.err, "erases all of /dev/vda: EFI (/dev/vda1, ")) << reset.err;
  ASSERT_TRUE(eventually([&] { return installations() > before; }, kUp, 1))
      << cluster.console(node.name);
  ASSERT_TRUE(node.waitUp()) << cluster.console(node.name);
  expectInstalled(node);
  EXPECT_NE(node.ageOfVar(), age);
}

// Catches: a disk whose content is lost without permission, a disk that is refused although it may
// be wiped; a node that does not report the fault of its disk on its console and to its
// administrator.
TEST(Install, ADiskThatCannotBeUsed) {
  VolatileCluster cluster("installnot", flags({"--with-bootloader", "--wait=false"}), 60);
  Node node{cluster, "installnot-master-1"};
  cluster.kill(node.name);  // before it has begun

  node.replaceInConfig("/dev/vda", "/dev/sdz");
  node.power("start");
  auto missing =
      "machine.install.disk: there is no disk /dev/sdz; the machine has /dev/vda (2048 MiB";
  EXPECT_TRUE(node.saysProblem(missing)) << cluster.console(node.name);
  EXPECT_TRUE(contains(cluster.console(node.name), missing));
  cluster.kill(node.name);

  node.replaceInConfig("/dev/sdz", "/dev/vda");
  std::filesystem::resize_file(node.disk(), 0);
  std::filesystem::resize_file(node.disk(), uint64_t{512} << 20);
  node.power("start");
  EXPECT_TRUE(node.saysProblem(
      "/dev/vda cannot be installed on: it has 512 MiB, and at least 1024 MiB are needed"));
  cluster.kill(node.name);

  std::filesystem::resize_file(node.disk(), uint64_t{2048} << 20);
  auto made = harness::run(
      {"sh", "-c", "echo 'label: dos\n2048,4096,c' | /usr/sbin/sfdisk -q '" + node.disk() + "'"});
  ASSERT_EQ(made.status, 0) << made.err;
  auto head = [&] {
    std::ifstream in(node.disk(), std::ios::binary);
    std::string bytes(1 << 20, 0);
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  };
  auto before = head();
  node.power("start");
  auto foreign = "it holds 1 partition (dos): 1; set machine.install.wipe: true";
  EXPECT_TRUE(node.saysProblem(foreign)) << cluster.console(node.name);
  EXPECT_TRUE(contains(cluster.console(node.name), foreign));
  EXPECT_EQ(before, head()) << "the disk was written to";
  cluster.kill(node.name);

  node.replaceInConfig("wipe: false", "wipe: true");
  node.power("start");
  ASSERT_TRUE(node.waitUp()) << cluster.console(node.name);
  expectInstalled(node);
}

// Catches: a write of the installation whose loss or half arrival stands in the way of all boots to
// come, counts as done, or loses the config.
TEST(Install, PowerCuts) {
  VolatileCluster cluster("installcut", flags({"--with-bootloader", "--wait=false"}), 60);
  Node node{cluster, "installcut-master-1"};
  cuts::Recording recording(cluster, node.name);
  // Records until the reboot into the installed system, which is another run.
  eventually([&] { return !recording.goesOn(); }, kUp, 0.2);
  ASSERT_EQ(recording.problem(), "");
  ASSERT_TRUE(node.waitUp()) << cluster.console(node.name);
  expectInstalled(node);
  cuts::Scratch folder;
  for (auto& sample : cutInstallation(node, recording, folder.path())) {
    SCOPED_TRACE("event " + std::to_string(sample.at.event) + ", " + sample.kind);
    cuts::startWith(cluster, node.name, sample);
    ASSERT_TRUE(node.waitUp()) << cluster.console(node.name);
    expectInstalled(node);
  }
}

}  // namespace talos::vm
