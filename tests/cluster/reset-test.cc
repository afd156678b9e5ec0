// Resets of nodes: what they erase is gone, what they do not is there, and whatever the power does they are
// finished. (That of a whole disk: vm-install-test.cc.)
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>

#include <filesystem>
#include <regex>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Background;
using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr double kSlow = 150;  // seconds, of a boot in emulation beside others

// In `make test`; the soak asks for more.
unsigned cutsToMake() {
  const char* asked = getenv("POWER_CUTS");
  return asked == nullptr ? 3 : static_cast<unsigned>(atoi(asked));
}

class Node {
 public:
  Node(const Cluster& cluster, std::string name) : cluster(cluster), name(std::move(name)) {}

  bool booted() {
    return contains(cluster.talosctl({"--timeout", "5s", "logs", "machined"}, 20).out,
                    "sequence boot: done");
  }
  std::string bootId() {
    return cluster.talosctl({"--timeout", "5s", "read", "/proc/sys/kernel/random/boot_id"}, 20).out;
  }
  // In this boot.
  bool madeState() {
    return contains(cluster.talosctl({"--timeout", "5s", "logs", "machined"}, 20).out,
                    "STATE: /dev/vdb1 was empty; made an");
  }
  // What STATE keeps of boots, this one among them.
  size_t records() {
    auto found = cluster.talosctl({"--timeout", "5s", "get", "bootrecords"}, 20);
    if (found.status != 0) return 0;
    return static_cast<size_t>(std::count(found.out.begin(), found.out.end(), '\n')) - 1;
  }
  bool marked() { return contains(cluster.ok({"meta", "read"}), "1380275013"); }
  size_t told(const std::string& line) {
    auto text = cluster.console(name);
    size_t count = 0;
    for (size_t at = 0; (at = text.find(line, at)) != std::string::npos; at += line.size()) ++count;
    return count;
  }
  std::string tail() {
    auto text = cluster.console(name);
    return text.size() < 3000 ? text : text.substr(text.size() - 3000);
  }

 private:
  const Cluster& cluster;
  std::string name;
};

}  // namespace

// Catches: a reset that a cut leaves half done, or undone although it was answered; one that is done again and
// again; a value of META that goes with STATE.
TEST(Reset, IsFinishedWhereverThePowerIsCut) {
  Cluster cluster("reset", {"--masters", "1", "--workers", "0", "--memory", "512", "--no-uplink"});
  Node node(cluster, "reset-master-1");
  ASSERT_TRUE(eventually([&] { return node.booted(); }, kSlow));
  cluster.ok({"meta", "write", "40", "stays"});
  unsigned cuts = 0, finished = 0;
  for (unsigned i = 0; i < cutsToMake(); ++i) {
    unsigned write = 1 + i * 9 % 33, seed = i / 2;
    SCOPED_TRACE("write " + std::to_string(write) + ", seed " + std::to_string(seed));
    ASSERT_TRUE(eventually([&] { return node.booted(); }, kSlow)) << node.tail();
    auto before = node.bootId();
    auto cut = node.told("a reset was cut off; finishing it");
    std::vector<std::string> words = {"cluster",        "node",       "kill",
                                      "reset-master-1", "--at-write", std::to_string(write),
                                      "--wait-timeout", "30s"};
    if (seed > 0) words.insert(words.end(), {"--seed", std::to_string(seed)});
    Background kill(cluster.command(words));
    Background reset(cluster.command({"reset", "--reboot", "--graceful=false", "--wait=false",
                                      "--system-labels-to-wipe", "STATE"}));
    bool promised = reset.finish(60) == 0;
    bool wasCut = kill.finish(60) == 0;
    if (!wasCut) {
      EXPECT_TRUE(contains(kill.err(), "did not reach write")) << kill.err();
    } else {
      ++cuts;
      cluster.ok({"cluster", "node", "start", "reset-master-1"});
    }
    ASSERT_TRUE(eventually(
        [&] {
          auto now = node.bootId();
          return !now.empty() && now != before && node.booted() && (!promised || node.madeState());
        },
        kSlow))
        << node.tail();
    auto again = node.told("a reset was cut off; finishing it") - cut;
    finished += again > 0;
    EXPECT_LE(again, 1u) << node.tail();
    EXPECT_FALSE(node.marked());
    // Done, it left nothing of earlier boots.
    if (node.madeState()) EXPECT_LE(node.records(), 1u);
    EXPECT_TRUE(contains(cluster.ok({"meta", "read", "40"}), "stays"));
  }
  std::cerr << cuts << " cuts, " << finished << " resets finished by the next boot\n";
  EXPECT_GT(cuts, 0u);
  EXPECT_GT(finished, 0u) << "no cut was in the middle of a reset";
}

// Catches: folders that are not emptied, others that are, a node that does not end as it was asked to, a label
// that a container does not have and takes.
TEST(Reset, AContainerEmptiesItsFolders) {
  Cluster cluster("resetbox", {"--provisioner", "container", "--masters", "1", "--workers", "0"});
  Node node(cluster, "resetbox-master-1");
  auto folder = std::filesystem::path(cluster.stateFolder()) / "resetbox-master-1";
  auto config = folder / "state" / "config.yaml", data = folder / "var" / "system";
  auto ready = [&] { return eventually([&] { return node.booted(); }, 60); };
  ASSERT_TRUE(ready());
  ASSERT_TRUE(std::filesystem::exists(config));
  ASSERT_TRUE(std::filesystem::exists(data));

  auto refused = cluster.talosctl({"reset", "--system-labels-to-wipe", "STATE,BOOT"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "a node in a container has no partition BOOT")) << refused.err;

  // Off, without its data and with its config.
  auto reset = cluster.talosctl({"reset", "--system-labels-to-wipe", "EPHEMERAL"}, 60);
  EXPECT_EQ(reset.status, 0) << reset.err;
  EXPECT_TRUE(contains(reset.err, "erases EPHEMERAL (/var); then goes off")) << reset.err;
  ASSERT_TRUE(
      eventually([&] { return contains(cluster.talosctl({"cluster", "show"}).out, " off"); }, 30));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "var"));
  EXPECT_TRUE(std::filesystem::exists(config));
  EXPECT_FALSE(std::filesystem::exists(folder / "state" / "reset"));

  cluster.ok({"cluster", "node", "start", "resetbox-master-1"});
  ASSERT_TRUE(ready());
  EXPECT_TRUE(std::filesystem::exists(data));

  // Back, without either: it has its config from where it had it first.
  auto before = node.bootId();
  cluster.ok({"reset", "--reboot", "--wait=false"});
  ASSERT_TRUE(eventually([&] { return !node.bootId().empty() && node.bootId() != before; }, 60));
  ASSERT_TRUE(ready());
  EXPECT_LE(node.records(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder / "state" / "reset"));
}

}  // namespace talos
