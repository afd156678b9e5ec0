// A daemon of a running node is replaced by that of the build folder, and no other program
// restarts.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr const char* kServices[] = {"networkd",        "apid",  "trustd", "vipd",
                                     "etcd-supervisor", "kubed", "logd"};
constexpr const char* kWorker = "10.5.0.3";
constexpr double kUp = 60;  // s, beside other tests

struct SwapCluster {
  Cluster cluster;
  std::filesystem::path programs = std::filesystem::path(harness::talosctlPath()).parent_path();

  explicit SwapCluster(const std::string& workers)
      : cluster("swap", {"--provisioner", "container", "--masters", "1", "--workers", workers,
                         "--use-vip"}) {}

  harness::Result replace(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {"debug", "replace", "--state", cluster.folder() + "/clusters"});
    return cluster.talosctl(arguments, kUp);
  }
  void waitFor(const std::vector<std::string>& services, const std::string& node) const {
    EXPECT_TRUE(eventually(
        [&] {
          auto pids = cluster.pidsOfServices(node);
          return std::all_of(services.begin(), services.end(),
                             [&](auto& service) { return pids[service] != 0; });
        },
        kUp))
        << cluster.ok({"-n", node, "services"});
  }
  // Makes logd run by a log destination; no program has to receive the lines.
  void sendLogs() const {
    // A worker whose certificate is not signed yet is sent no config.
    EXPECT_TRUE(eventually(
        [&] { return cluster.talosctl({"-n", kWorker, "get", "mc"}).status == 0; }, kUp));
    cluster.ok({"-n", std::string(Cluster::kFirst) + "," + kWorker, "patch", "mc", "--immediate",
                "-p",
                R"([{"op": "add", "path": "/machine/logging", "value":
                     {"destinations": [{"endpoint": "udp://10.5.0.1:5140"}]}}])"});
  }
};

// Every service but this one runs as the process that it was.
void expectOnly(const std::string& service, const std::map<std::string, int>& before,
                std::map<std::string, int> after) {
  for (auto& [id, pid] : before) {
    EXPECT_EQ(id == service, after[id] != pid) << id << ", when " << service << " was replaced";
  }
}

// Catches: a daemon that keeps its rules about files and cannot run as another program; a
// replacement that stops other daemons, or those of another node; a program that stays after a
// reboot.
TEST(DebugReplace, OneServiceAtATime) {
  SwapCluster swap("1");
  auto& cluster = swap.cluster;
  cluster.ok({"bootstrap", "-n", Cluster::kFirst}, 120);
  swap.sendLogs();
  swap.waitFor({std::begin(kServices), std::end(kServices)}, Cluster::kFirst);
  swap.waitFor({"networkd", "apid", "kubed", "logd"}, kWorker);
  for (std::string service : kServices) {
    auto before = cluster.pidsOfServices(Cluster::kFirst), others = cluster.pidsOfServices(kWorker);
    auto replaced =
        swap.replace({"-n", Cluster::kFirst, service, (swap.programs / service).string()});
    EXPECT_EQ(0, replaced.status) << replaced.err;
    EXPECT_TRUE(contains(replaced.out, "swap-master-1: " + service + " runs ")) << replaced.out;
    expectOnly(service, before, cluster.pidsOfServices(Cluster::kFirst));
    EXPECT_EQ(others, cluster.pidsOfServices(kWorker)) << service;
    EXPECT_TRUE(contains(cluster.ok({"-n", Cluster::kFirst, "service", service}),
                         "Started /run/talos-replaced/" + service));
  }
  auto undone = swap.replace({"-n", Cluster::kFirst, "--undo", "networkd"});
  EXPECT_TRUE(contains(undone.out, "networkd runs the node's own program")) << undone.out;
  EXPECT_TRUE(
      contains(swap.replace({"-n", kWorker, "--undo", "networkd"}).err, "was not replaced"));
  // Without -n, all nodes.
  auto all = swap.replace({"logd", (swap.programs / "logd").string()});
  EXPECT_TRUE(contains(all.out, "swap-master-1: logd runs ") &&
              contains(all.out, "swap-worker-1: logd runs "))
      << all.out << all.err;

  cluster.ok({"-n", Cluster::kFirst, "reboot"}, 120);
  EXPECT_TRUE(
      contains(cluster.ok({"-n", Cluster::kFirst, "service", "apid"}), "Started /usr/bin/apid"));
}

// Catches: a program that dies a moment after its start and is reported as running; a user who is
// not told of --undo.
TEST(DebugReplace, AProgramThatDiesIsNotUp) {
  SwapCluster swap("0");
  auto& cluster = swap.cluster;
  swap.waitFor({"kubed", "networkd"}, Cluster::kFirst);
  for (std::string service : {"kubed", "networkd"}) {  // kubed has no health check
    auto program = getenv("SHORT_LIVED") + service;
    auto before = cluster.pidsOfServices(Cluster::kFirst);
    auto dead = swap.replace({service, program});
    EXPECT_EQ(1, dead.status) << dead.out;
    EXPECT_FALSE(contains(dead.out, "runs")) << dead.out;
    EXPECT_TRUE(contains(dead.err, service + " is not up after 30s: ")) << dead.err;
    EXPECT_TRUE(contains(dead.err, "`talosctl debug replace --undo " + service + "`")) << dead.err;
    auto undone = swap.replace({"--undo", service});
    EXPECT_EQ(0, undone.status) << undone.err;
    EXPECT_TRUE(contains(undone.out, service + " runs the node's own program")) << undone.out;
    expectOnly(service, before, cluster.pidsOfServices(Cluster::kFirst));
  }
}

// Catches: a mistake that is noticed when the daemon does not come up.
TEST(DebugReplace, RefusesWhatCannotRun) {
  SwapCluster swap("0");
  auto refused = [&](const std::vector<std::string>& arguments, const std::string& why) {
    auto result = swap.replace(arguments);
    EXPECT_EQ(1, result.status);
    EXPECT_TRUE(contains(result.err, why)) << result.err;
  };
  auto pids = swap.cluster.pidsOfServices(Cluster::kFirst);
  refused({"networkd", "/bin/ls"}, "it needs shared libraries");
  refused({"networkd", "/etc/passwd"}, "it is not an ELF file");
  refused({"networkd", harness::talosctlPath()}, "it is no daemon of this system");
  refused({"networkd", (swap.programs / "apid").string()}, "it is another daemon");
  refused({"etcd", "/bin/ls"}, "\"etcd\" cannot be replaced; use one of apid, ");
  refused({"machined", "/bin/ls"}, "machined is the image's own");
  refused({"-n", "10.5.0.9", "networkd", (swap.programs / "networkd").string()},
          "no node of the local cluster");
  EXPECT_EQ(pids, swap.cluster.pidsOfServices(Cluster::kFirst));
}

}  // namespace
}  // namespace talos
