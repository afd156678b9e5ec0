// A daemon of a virtual machine is replaced by that of the build folder: no other program is
// restarted, and a reboot restores the image's own program.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/harness/cluster.h"

namespace talos::vm {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr const char* kOwn = "Started /usr/bin/";
constexpr const char* kOther = "Started /run/talos-replaced/";

struct SwapMachine {
  Cluster cluster{"vmswap", {"--masters", "1", "--workers", "0", "--memory", "768"}};
  std::filesystem::path programs = std::filesystem::path(harness::talosctlPath()).parent_path();

  harness::Result replace(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {"debug", "replace", "--state", cluster.folder() + "/clusters"});
    return cluster.talosctl(arguments, 120);
  }
  std::string bootId() const { return cluster.ok({"read", "/proc/sys/kernel/random/boot_id"}); }
  // The last start of the service.
  std::string started(const std::string& service) const {
    std::string last;
    for (auto& line : harness::lines(cluster.ok({"service", service}))) {
      if (contains(line, "Started /")) return line.substr(line.find("Started /"));  // newest first
    }
    return last;
  }
  // Returns true if the window is empty for its next reader.
  bool windowIsEmpty() const {
    std::ifstream file(cluster.stateFolder() + "/vmswap-master-1.window", std::ios::binary);
    char header[96] = {1};
    file.read(header, sizeof header);
    return std::string(header, sizeof header) == std::string(sizeof header, 0);
  }
};

void expectOnly(const std::string& service, const std::map<std::string, int>& before,
                std::map<std::string, int> after) {
  for (auto& [id, pid] : before) {
    EXPECT_EQ(id == service, after[id] != pid) << id << ", when " << service << " was replaced";
  }
}

}  // namespace

// Catches: a machine that takes no program, or another service's; a replacement that reboots it or
// takes other services with it; apid, through which the order to restart it comes, said to be
// lost; an order that stays for the next boot, or a program that does.
TEST(MachineDebugReplace, OneServiceAtATimeUntilAReboot) {
  SwapMachine swap;
  auto& cluster = swap.cluster;
  ASSERT_TRUE(eventually([&] { return cluster.booted(); }, harness::kBoots));
  ASSERT_TRUE(eventually([&] { return cluster.pidsOfServices()["kubed"] != 0; }, harness::kBoots));
  auto boot = swap.bootId();
  for (std::string service : {"networkd", "apid", "kubed"}) {
    auto before = cluster.pidsOfServices();
    auto replaced = swap.replace({service, (swap.programs / service).string()});
    EXPECT_EQ(0, replaced.status) << replaced.err;
    EXPECT_TRUE(contains(replaced.out, "vmswap-master-1: " + service + " runs ")) << replaced.out;
    expectOnly(service, before, cluster.pidsOfServices());
    EXPECT_TRUE(contains(swap.started(service), kOther + service)) << swap.started(service);
    EXPECT_TRUE(swap.windowIsEmpty());
  }
  // It dies, and is the other program again.
  auto dead = cluster.pidsOfServices()["kubed"];
  cluster.ok({"service", "kubed", "kill", "--signal", "SIGKILL"});
  EXPECT_TRUE(eventually(
      [&] {
        auto pid = cluster.pidsOfServices()["kubed"];
        return pid != 0 && pid != dead;
      },
      60));
  EXPECT_TRUE(contains(swap.started("kubed"), kOther)) << swap.started("kubed");

  auto before = cluster.pidsOfServices();
  auto undone = swap.replace({"--undo", "networkd"});
  EXPECT_TRUE(contains(undone.out, "networkd runs the node's own program")) << undone.err;
  expectOnly("networkd", before, cluster.pidsOfServices());
  EXPECT_TRUE(contains(swap.started("networkd"), kOwn)) << swap.started("networkd");
  EXPECT_TRUE(contains(swap.replace({"--undo", "networkd"}).err, "was not replaced"));
  EXPECT_TRUE(contains(swap.replace({"networkd", "/bin/ls"}).err, "it needs shared libraries"));
  EXPECT_EQ(boot, swap.bootId());

  cluster.ok({"reboot"}, harness::kBoots);
  EXPECT_TRUE(eventually([&] { return cluster.booted(); }, harness::kBoots));
  EXPECT_NE(boot, swap.bootId());
  EXPECT_TRUE(contains(swap.started("apid"), kOwn)) << swap.started("apid");
}

}  // namespace talos::vm
