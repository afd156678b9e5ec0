// Programs written in Go, with the transport of the original's clients, on nodes in containers:
// from machines without a config to a cluster of which one node is down and one has none.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr const char *kMaster = "10.5.0.2", *kOther = "10.5.0.3", *kDown = "10.5.0.4",
                     *kWithout = "10.5.0.5";
constexpr double kBoot = 240, kTests = 240;

class Clients : public ::testing::Test {
 public:
  static Cluster* cluster;

  static void SetUpTestSuite() {
    if (program().empty()) return;
    cluster = new Cluster("clients", {"--provisioner", "container", "--masters", "1", "--workers",
                                      "3", "--wait=false", "--skip-injecting-config"});
  }
  static void TearDownTestSuite() { delete cluster; }

 protected:
  static std::string program() {
    auto path = getenv("CLIENTS");
    return path == nullptr ? "" : path;
  }
  void SetUp() override {
    if (cluster == nullptr) GTEST_SKIP() << "CLIENTS is not set: `make test` compiles them";
  }
  static std::string nameOf(const std::string& node) {
    return node == kMaster  ? "clients-master-1"
           : node == kOther ? "clients-worker-1"
           : node == kDown  ? "clients-worker-2"
                            : "clients-worker-3";
  }
  // Those of the program's tests that the expression names, against one node.
  static void runTests(const std::string& names, const std::string& node) {
    auto result = harness::run(
        {program(), "-test.v", "-test.run", names, "-test.timeout", "200s"}, kTests,
        {"NODE=" + node, "ENDPOINT=" + cluster->endpoint(node), "HOSTNAME_OF_NODE=" + nameOf(node),
         std::string("OTHER=") + kOther, std::string("DOWN=") + kDown,
         std::string("MAINTENANCE=") + kWithout, "TALOSCONFIG=" + cluster->talosconfig(),
         "TALOSCTL=" + harness::talosctlPath(),
         "CONFIG=" + cluster->stateFolder() + "/" + nameOf(node) + ".yaml"});
    EXPECT_EQ(0, result.status) << result.out << result.err;
    EXPECT_TRUE(contains(result.out, "--- PASS")) << "no test has run: " << result.out;
  }
  static bool up(const std::string& node) {
    return eventually(
        [&] {
          auto table = cluster->talosctl({"-n", node, "--timeout", "5s", "services"}, 20);
          return table.status == 0 && table.err.empty() && contains(table.out, "apid") &&
                 harness::allServicesUp(table.out);
        },
        kBoot, 0.5);
  }
};
Cluster* Clients::cluster = nullptr;

TEST_F(Clients, A_GiveMachinesTheirConfigs) {
  for (auto node : {kMaster, kOther, kDown}) {
    ASSERT_TRUE(eventually(
        [&] {
          return cluster->talosctl({"-n", cluster->endpoint(node), "version", "--insecure"}, 20)
                     .status == 0;
        },
        kBoot, 0.5))
        << cluster->console(nameOf(node));
    runTests("^TestMaintenance$", node);
  }
  for (auto node : {kMaster, kOther, kDown}) {
    ASSERT_TRUE(up(node)) << node << cluster->console(nameOf(node));
  }
}

TEST_F(Clients, B_OneNode) {
  runTests(
      "^Test(Version|ServiceList|Logs|Files|Facts|Events|Errors|Roles|Definitions|GetAndList|"
      "Watch|OldResources|ApplyConfiguration|LargeStreamWithSmallWindows|ManyStreams)$",
      kMaster);
}

TEST_F(Clients, C_Etcd) {
  runTests("^Test(Etcd|Containers)$", kMaster);
}

TEST_F(Clients, D_SomeNodesFail) {
  cluster->ok({"cluster", "node", "kill", nameOf(kDown)});
  runTests("^TestMixedNodes$", kMaster);
}

// Last: what it leaves is another boot.
TEST_F(Clients, E_Reboot) {
  runTests("^TestReboot$", kOther);
}

}  // namespace
}  // namespace talos
