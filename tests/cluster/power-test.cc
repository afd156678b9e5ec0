// The power of a cluster whose nodes are of both kinds: two containers and a virtual machine.
// Only an orderly stop needs nodes that have booted, so nothing else waits for that.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <random>
#include <regex>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::namespacesOf;
using harness::processesWith;
using harness::slurp;
namespace fs = std::filesystem;

const std::vector<std::string> kMixed = {
    "--provisioner", "container",    "--masters",          "2", "--workers", "1", "--memory",
    "256",           "--wait=false", "--virtual-machines", "1"};
constexpr const char* kActions[] = {"start", "stop", "kill", "pause", "resume", "reset"};

// The states in `cluster show`, which must not wait for anything.
std::map<std::string, std::string> states(const Cluster& cluster) {
  auto shown = cluster.talosctl({"cluster", "show", "-o", "json"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_LT(shown.seconds, 10.0);
  std::map<std::string, std::string> result;
  static const std::regex node("\"name\": *\"([a-z0-9-]+)\",\\s*\"type\"");
  static const std::regex state("\"state\": *\"([a-z ]+)\"");
  for (std::sregex_iterator it(shown.out.begin(), shown.out.end(), node), end; it != end; ++it) {
    std::smatch match;
    auto rest = it->suffix().str();
    KJ_REQUIRE(std::regex_search(rest, match, state), shown.out.c_str());
    result[(*it)[1].str()] = match[1].str();
  }
  KJ_REQUIRE(result.size() == 3, shown.out.c_str());
  return result;
}

std::vector<fs::path> cgroupsOf(const std::string& name) {
  std::vector<fs::path> found;
  std::error_code ignored;
  // With cgroup v2 alone the root is the only hierarchy; beside v1, each hierarchy has a folder.
  std::vector<fs::path> roots = {"/sys/fs/cgroup"};
  for (auto& root : fs::directory_iterator(roots[0], ignored)) roots.push_back(root.path());
  for (auto& root : roots) {
    for (auto& cluster : fs::directory_iterator(root / "talos", ignored)) {
      if (cluster.path().filename().string().starts_with(name + "-")) found.push_back(cluster);
    }
  }
  return found;
}

// The state as the kernel has it, without asking the supervisor.
std::string truth(const Cluster& cluster, const std::string& node) {
  auto stat = slurp("/proc/" + std::to_string(cluster.process(node)) + "/stat");
  if (stat.empty()) return "off";
  if (stat[stat.rfind(')') + 2] == 'T') return "paused";
  for (auto& cgroup : cgroupsOf("power")) {
    if (contains(slurp(cgroup / node / "cgroup.events"), "frozen 1")) return "paused";
  }
  return "running";
}

// Catches: an action that is answered before it has happened, a state that is late or that is the
// requested state instead of the actual one, a node that is lost after many actions.
TEST(Power, AHundredActionsAreShownAsTheyAre) {
  Cluster cluster("power", kMixed);
  std::vector<std::string> nodes = {"power-master-1", "power-master-2", "power-worker-1"};
  std::mt19937 chance(7);
  std::map<std::string, std::string> expected;
  for (auto& node : nodes) expected[node] = "running";
  unsigned done = 0;
  for (unsigned tries = 0; done < 100 && tries < 1000; ++tries) {
    auto& node = nodes[chance() % nodes.size()];
    std::string action = kActions[chance() % std::size(kActions)];
    auto& state = expected[node];
    bool off = state == "off", paused = state == "paused";
    // An orderly stop of a machine takes as long as its boot; here it is the power that is tested.
    if (action == "stop" && (node == nodes[2] || !off)) continue;
    bool allowed = action == "start"    ? off
                   : action == "stop"   ? false
                   : action == "pause"  ? !off && !paused
                   : action == "resume" ? paused
                                        : !off;
    auto result = cluster.talosctl({"cluster", "node", action, node});
    ASSERT_EQ(result.status, allowed ? 0 : 1)
        << action << " " << node << " when " << state << ": " << result.err;
    if (allowed) state = action == "kill" ? "off" : action == "pause" ? "paused" : "running";
    ASSERT_EQ(states(cluster), expected) << action << " " << node;
    for (auto& each : nodes) ASSERT_EQ(truth(cluster, each), expected[each]) << each;
    ++done;
  }
  EXPECT_EQ(done, 100);
}

// How the runs of a node have ended, by the supervisor's log.
std::vector<std::string> endsOf(const Cluster& cluster, const std::string& node) {
  auto log = slurp(cluster.stateFolder() + "/supervisor.log");
  std::regex line("message=\"node ended\" node=" + node + " outcome=\"?([^\"\n]*)");
  std::vector<std::string> all;
  for (std::sregex_iterator it(log.begin(), log.end(), line), end; it != end; ++it) {
    all.push_back((*it)[1].str());
  }
  return all;
}

// The nodes boot in this test. Catches: a stop that does not reach a node, a stop that is in truth
// a power cut, a node that does not come back from it.
TEST(Power, AnOrderlyStopIsOneAndTheNodesComeBack) {
  Cluster cluster("power", {"--provisioner", "container", "--masters", "1", "--workers", "2",
                            "--virtual-machines", "1", "--memory", "512"});
  const std::string container = "power-worker-1", machine = "power-worker-2";
  for (auto& node : {container, machine}) {
    auto before = endsOf(cluster, node).size();
    auto stopped = cluster.talosctl({"cluster", "node", "stop", node}, 90);
    EXPECT_EQ(stopped.status, 0) << stopped.err;
    EXPECT_EQ(states(cluster)[node], "off");
    auto ends = endsOf(cluster, node);
    ASSERT_EQ(ends.size(), before + 1) << node;
    EXPECT_EQ(ends.back(), "switched off") << node;
    cluster.ok({"cluster", "node", "start", node});
  }
  for (auto address : {"10.5.0.3", "10.5.0.4"}) {
    harness::Result records;
    EXPECT_TRUE(eventually(
        [&] {
          records = cluster.talosctl({"-n", address, "get", "bootrecords"});
          return records.status == 0 && contains(records.out, "asked for at the machine");
        },
        harness::kBoots))
        << records.out << records.err;
  }
  cluster.ok({"cluster", "stop"}, 90);
  auto log = slurp(cluster.stateFolder() + "/supervisor.log");
  EXPECT_FALSE(contains(log, "its power is cut")) << log;
  for (auto& [node, state] : states(cluster)) EXPECT_EQ(state, "off") << node;
  cluster.ok({"cluster", "start"}, 300);
  for (auto address : {"10.5.0.2", "10.5.0.3", "10.5.0.4"}) {
    cluster.ok({"-n", address, "version"});
  }
}

// Catches: a start that does not wait for nodes which got their configs after the first boot, or
// that waits for nodes which may never get a config.
TEST(Power, AStartWaitsForNodesThatHaveTheirConfigs) {
  auto start = [](const char* flag) {
    Cluster cluster("power",
                    {"--provisioner", "container", "--masters", "1", "--workers", "0", flag});
    cluster.ok({"cluster", "stop"}, 90);
    auto started = cluster.talosctl({"cluster", "start"});
    EXPECT_EQ(started.status, 0) << started.err;
    return started.err;
  };
  EXPECT_TRUE(contains(start("--with-apply-config"), "waiting for API"));
  EXPECT_TRUE(contains(start("--skip-injecting-config"), "created without a config"));
}

// Catches: a crash that is not shown, a crash that ends other nodes.
TEST(Power, ACrashIsShownAtOnceWithItsReason) {
  Cluster cluster("power", kMixed);
  for (std::string node : {"power-master-1", "power-worker-1"}) {
    kill(cluster.process(node), SIGKILL);
    EXPECT_TRUE(eventually([&] { return states(cluster)[node] == "failed"; }, 10));
  }
  auto table = cluster.ok({"cluster", "show"});
  EXPECT_TRUE(contains(table, "failed: process 1 killed by signal 9")) << table;
  EXPECT_TRUE(contains(table, "failed: QEMU killed by signal 9")) << table;
  EXPECT_EQ(states(cluster)["power-master-2"], "running");
}

// The loop devices that a cluster has mounted, each with its sequence number, which changes when
// the device gets another file: clusters of other tests come and go meanwhile.
using LoopDevices = std::set<std::pair<std::string, std::string>>;
std::string numberOf(const std::string& device) {
  return slurp("/sys/block/" + device + "/diskseq");
}
LoopDevices loopDevicesOf(pid_t supervisor) {
  LoopDevices all;
  auto mounts = slurp("/proc/" + std::to_string(supervisor) + "/mountinfo");
  static const std::regex device("/clusters/.* /dev/(loop[0-9]+) ");
  for (std::sregex_iterator it(mounts.begin(), mounts.end(), device), end; it != end; ++it) {
    all.insert({(*it)[1].str(), numberOf((*it)[1].str())});
  }
  return all;
}
bool areFree(const LoopDevices& devices) {
  for (auto& [device, number] : devices) {
    if (!slurp("/sys/block/" + device + "/loop/backing_file").empty() &&
        numberOf(device) == number) {
      return false;
    }
  }
  return true;
}

// The host is rebooted: everything is killed at once. Catches: processes, namespaces, loop devices
// or mounts that outlive the supervisor, a cluster that cannot be started or destroyed after that.
TEST(Power, WhatIsLeftOfAKilledSupervisorAndOfADestroyedCluster) {
  auto mounts = slurp("/proc/self/mountinfo");
  LoopDevices loops;
  std::string folder;
  {
    Cluster cluster("power", kMixed);
    folder = cluster.stateFolder();
    EXPECT_EQ(cgroupsOf("power").empty(), false);
    auto supervisor = cluster.supervisor();
    std::vector<pid_t> pids = {supervisor};
    for (std::string node : {"power-master-1", "power-master-2", "power-worker-1"}) {
      pids.push_back(cluster.process(node));
    }
    loops = loopDevicesOf(cluster.supervisor());
    EXPECT_EQ(loops.size(), 2u) << "one for the system of each container";
    kill(supervisor, SIGKILL);
    for (auto pid : pids) {
      EXPECT_TRUE(eventually(
          [&] {
            auto stat = slurp("/proc/" + std::to_string(pid) + "/stat");
            return stat.empty() || stat[stat.rfind(')') + 2] == 'Z';
          },
          60))
          << pid;
    }
    EXPECT_TRUE(eventually([&] { return areFree(loops); }, 60));
    auto shown = cluster.talosctl({"cluster", "show"});
    EXPECT_TRUE(contains(shown.err, "not running")) << shown.err;
    for (auto& [node, state] : states(cluster)) EXPECT_EQ(state, "off") << node;
    auto refused = cluster.talosctl({"cluster", "node", "start", "power-master-1"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_TRUE(contains(refused.err, "talosctl cluster start")) << refused.err;
    cluster.ok({"cluster", "start", "--wait=false"});
    for (auto& [node, state] : states(cluster)) EXPECT_EQ(state, "running") << node;
    loops = loopDevicesOf(cluster.supervisor());
    EXPECT_EQ(loops.size(), 2u) << "one for the system of each container";
    kill(cluster.supervisor(), SIGKILL);
  }
  EXPECT_TRUE(eventually([&] { return processesWith(folder).empty(); }, 10));
  EXPECT_TRUE(eventually([&] { return cgroupsOf("power").empty(); }, 10));
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_EQ(slurp("/proc/self/mountinfo"), mounts);
  EXPECT_TRUE(eventually([&] { return areFree(loops); }, 60));
}

// Catches: namespaces that something keeps.
TEST(Power, NamespacesGoWithTheCluster) {
  auto ours = namespacesOf({getpid()});
  std::set<std::string> theirs;
  std::set<harness::Inhabitant> before;
  {
    Cluster cluster("power", kMixed);
    std::set<pid_t> pids = {cluster.supervisor()};
    for (std::string node : {"power-master-1", "power-master-2", "power-worker-1"}) {
      pids.insert(cluster.process(node));
    }
    for (auto& each : namespacesOf(pids)) {
      if (!ours.contains(each)) theirs.insert(each);
    }
    before = harness::inhabitantsOf(theirs);
    EXPECT_TRUE(harness::stay(before)) << "the check below would see nothing";
  }
  EXPECT_EQ(theirs.size(), 2 + 2 * 6) << "of the supervisor two, of two containers six each";
  EXPECT_TRUE(eventually([&] { return !harness::stay(before); }, 5));
}

}  // namespace
}  // namespace talos
