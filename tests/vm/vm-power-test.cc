// Events of a machine that its node has to handle: its power button is pressed, its kernel dies.
// QEMU does both.
#include <gtest/gtest.h>

#include "tests/harness/cluster.h"
#include "tests/vm/qemu-control.h"

namespace talos::vm {
namespace {

using harness::Background;
using harness::Cluster;
using harness::contains;
using harness::eventually;

QemuControl controlOf(const Cluster& cluster, const std::string& node) {
  return QemuControl(cluster.stateFolder() + "/" + node + ".qmp");
}

bool exited(const Cluster& cluster, const std::string& node) {
  for (auto& line : harness::lines(harness::slurp(cluster.stateFolder() + "/supervisor.log"))) {
    if (contains(line, "node ended") && contains(line, node) && contains(line, "switched off")) {
      return true;
    }
  }
  return false;
}

}  // namespace

// Catches: a button that does nothing, or cuts the power instead of stopping the services, or whose
// press is lost with the brain.
TEST(PowerButton, ShutsTheNodeDownInOrder) {
  Cluster cluster("vmpower", {"--masters", "1", "--workers", "1", "--memory", "512"});
  const std::string master = "vmpower-master-1", worker = "vmpower-worker-1";
  {
    Background log(cluster.command({"-n", "10.5.0.3", "logs", "-f", "machined"}));
    auto says = [&](const char* words) {
      return log.waitFor([&](auto& out, auto&) { return contains(out, words); }, harness::kBoots);
    };
    EXPECT_TRUE(says("sequence boot: done")) << log.out() << log.err();
    controlOf(cluster, worker).command("system_powerdown");
    EXPECT_TRUE(says("sequence shutdown: ")) << log.out() << log.err();
    EXPECT_TRUE(eventually([&] { return exited(cluster, worker); }, harness::kBoots));
  }
  auto brain = cluster.servicePids()["machined"];
  cluster.ok({"-n", Cluster::kFirst, "service", "machined", "kill", "--signal", "SIGKILL"});
  EXPECT_TRUE(
      eventually([&] { return cluster.servicePids()["machined"] != brain; }, harness::kBoots));
  controlOf(cluster, master).command("system_powerdown");
  EXPECT_TRUE(eventually([&] { return exited(cluster, master); }, harness::kBoots));
  for (auto& node : {master, worker}) {
    auto console = cluster.console(node);
    EXPECT_FALSE(contains(console, "going on without it")) << console;
  }
}

// Catches: a kernel that dies without a record of the cause; last words that are lost, reported
// twice, or that keep the firmware full.
TEST(LastWords, OfAKernelThatPanicsAreReadInTheNextBoot) {
  Cluster cluster("vmpanic", {"--masters", "1", "--workers", "0", "--memory", "512",
                              "--extra-boot-kernel-args", "unknown_nmi_panic"});
  auto reads = [&](const std::vector<std::string>& what, const char* words) {
    return eventually(
        [&] {
          auto said = cluster.talosctl(what, 20);
          return said.status == 0 && contains(said.out, words);
        },
        harness::kBoots);
  };
  controlOf(cluster, "vmpanic-master-1").command("inject-nmi");
  EXPECT_TRUE(reads({"get", "bootrecords"}, "kernel panic")) << cluster.console("vmpanic-master-1");
  auto words = cluster.ok({"logs", "--previous", "kernel-last-words"});
  EXPECT_TRUE(contains(words, "Panic#1")) << words;
  EXPECT_TRUE(contains(words, "NMI: Not continuing")) << words;
  EXPECT_EQ(cluster.ok({"ls", "/sys/fs/pstore"}).find("dmesg"), std::string::npos);
}

}  // namespace talos::vm
