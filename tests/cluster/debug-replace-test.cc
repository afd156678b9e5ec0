// A daemon of a living node is replaced by the one of the build folder: nothing else is restarted.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr const char* kServices[] = {"networkd",        "apid", "trustd", "vipd",
                                     "etcd-supervisor", "kubed"};
constexpr double kUp = 60;  // s, beside other tests

// By service; 0 where none runs.
std::map<std::string, int> pidsOf(const Cluster& cluster) {
  std::map<std::string, int> pids;
  auto text = cluster.talosctl({"-n", Cluster::kFirst, "services", "-o", "json"}).out;
  static const std::regex field("\"(id|pid)\": \"?([a-z0-9-]+)");
  std::string id;
  for (std::sregex_iterator it(text.begin(), text.end(), field), end; it != end; ++it) {
    if ((*it)[1] == "id") {
      id = (*it)[2];
    } else {
      pids[id] = std::stoi((*it)[2]);
    }
  }
  return pids;
}

// Catches: a daemon that keeps its rules about files and cannot run as another program; one that
// takes others with it; a program that stays after a reboot.
TEST(DebugReplace, OneServiceAtATime) {
  Cluster cluster("swap",
                  {"--provisioner", "container", "--masters", "1", "--workers", "1", "--use-vip"});
  auto replace = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"debug", "replace", "--state", cluster.folder() + "/clusters"});
    return cluster.talosctl(arguments, kUp);
  };
  auto programs = std::filesystem::path(harness::talosctlPath()).parent_path();
  cluster.ok({"bootstrap", "-n", Cluster::kFirst}, 120);
  ASSERT_TRUE(eventually(
      [&] {
        auto pids = pidsOf(cluster);
        for (auto service : kServices) {
          if (pids[service] == 0) return false;
        }
        return true;
      },
      kUp))
      << cluster.ok({"-n", Cluster::kFirst, "services"});
  for (std::string service : kServices) {
    auto before = pidsOf(cluster);
    auto replaced = replace({"-n", Cluster::kFirst, service, (programs / service).string()});
    EXPECT_EQ(0, replaced.status) << replaced.err;
    EXPECT_TRUE(contains(replaced.out, "swap-master-1: " + service + " runs ")) << replaced.out;
    auto after = pidsOf(cluster);
    for (auto& [id, pid] : before) {
      EXPECT_EQ(id == service, after[id] != pid) << id << ", when " << service << " was replaced";
    }
    EXPECT_TRUE(contains(cluster.ok({"-n", Cluster::kFirst, "service", service}),
                         "Started /run/talos-replaced/" + service));
  }
  auto undone = replace({"-n", Cluster::kFirst, "--undo", "networkd"});
  EXPECT_TRUE(contains(undone.out, "networkd runs the node's own program")) << undone.out;
  EXPECT_TRUE(contains(replace({"-n", "10.5.0.3", "--undo", "networkd"}).err, "was not replaced"));

  cluster.ok({"-n", Cluster::kFirst, "reboot"}, 120);
  EXPECT_TRUE(
      contains(cluster.ok({"-n", Cluster::kFirst, "service", "apid"}), "Started /usr/bin/apid"));
}

// Catches: a mistake that is noticed when the daemon does not come up.
TEST(DebugReplace, RefusesWhatCannotRun) {
  Cluster cluster("swap", {"--provisioner", "container", "--masters", "1", "--workers", "0"});
  auto refused = [&](std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin(),
                     {"debug", "replace", "--state", cluster.folder() + "/clusters"});
    auto result = cluster.talosctl(arguments, kUp);
    EXPECT_EQ(1, result.status);
    EXPECT_TRUE(contains(result.err, why)) << result.err;
  };
  auto pids = pidsOf(cluster);
  refused({"networkd", "/bin/ls"}, "it needs shared libraries");
  refused({"networkd", "/etc/passwd"}, "it is not an ELF file");
  refused({"etcd", "/bin/ls"}, "\"etcd\" cannot be replaced; use one of apid, ");
  refused({"machined", "/bin/ls"}, "machined is the image's own");
  refused({"-n", "10.5.0.9", "networkd", harness::talosctlPath()}, "no node of the local cluster");
  EXPECT_EQ(pids, pidsOf(cluster));
}

}  // namespace
}  // namespace talos
