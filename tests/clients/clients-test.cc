// Programs written in Go, with the transport of Talos' clients, on nodes in containers:
// from machines without a config over a cluster with a node that is down, a node without a config
// and a node that does not answer, to three control-plane nodes and two workers.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdlib.h>

#include "tests/harness/foreign-client.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr const char *kMaster = "10.5.0.2", *kOther = "10.5.0.3", *kDown = "10.5.0.4",
                     *kWithout = "10.5.0.5", *kSecond = "10.5.0.6";
constexpr double kBoot = 240;

class Clients : public ::testing::Test {
 public:
  static Cluster* cluster;

  static void SetUpTestSuite() {
    if (harness::foreignClient().empty()) return;
    cluster = new Cluster("clients", {"--provisioner", "container", "--masters", "3", "--workers",
                                      "2", "--wait=false", "--skip-injecting-config"});
  }
  static void TearDownTestSuite() { delete cluster; }

 protected:
  void SetUp() override {
    ASSERT_NE(cluster, nullptr) << "CLIENTS is not set: `make test` compiles them";
  }
  static std::string nameOf(const std::string& node) {
    return node == kMaster    ? "clients-master-1"
           : node == kOther   ? "clients-master-2"
           : node == kDown    ? "clients-master-3"
           : node == kWithout ? "clients-worker-1"
                              : "clients-worker-2";
  }
  // Runs those of the program's tests that the expression names, against one node.
  static void runTests(const std::string& names, const std::string& node) {
    harness::runForeignClient(*cluster, names, node,
                              {"HOSTNAME_OF_NODE=" + nameOf(node), std::string("OTHER=") + kOther,
                               std::string("DOWN=") + kDown, std::string("MAINTENANCE=") + kWithout,
                               std::string("NODES=") + kMaster + " " + kOther + " " + kDown + " " +
                                   kWithout + " " + kSecond,
                               "CONFIG=" + cluster->stateFolder() + "/" + nameOf(node) + ".yaml"});
  }
  // Sends the node's config to a machine that waits for it.
  static void giveConfig(const std::string& node) {
    ASSERT_TRUE(eventually(
        [&] {
          return cluster->talosctl({"-n", cluster->endpoint(node), "version", "--insecure"}, 20)
                     .status == 0;
        },
        kBoot, 0.5))
        << cluster->console(nameOf(node));
    runTests("^TestMaintenance$", node);
  }
  static bool threeVote() {
    return eventually(
        [] {
          auto all = cluster->talosctl({"-n", kMaster, "etcd", "members", "-o", "json"}, 20);
          std::erase(all.out, ' ');
          unsigned voters = 0;
          constexpr kj::StringPtr kVoter = "\"learner\":false"_kj;
          for (auto at = all.out.find(kVoter.cStr()); at != std::string::npos;
               at = all.out.find(kVoter.cStr(), at + 1)) {
            ++voters;
          }
          return voters == 3;
        },
        kBoot, 0.5);
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
  for (auto node : {kMaster, kOther, kDown}) giveConfig(node);
  for (auto node : {kMaster, kOther, kDown}) {
    ASSERT_TRUE(up(node)) << node << cluster->console(nameOf(node));
  }
}

TEST_F(Clients, B_OneNode) {
  runTests(
      "^Test(Version|ServiceList|Logs|Lines|Features|TailOfEvents|Files|Facts|Events|Errors|Roles|"
      "Definitions|GetAndList|"
      "Watch|OldResources|ApplyConfiguration|TrustedRoots|Streaming|LargeStreamWithSmallWindows|"
      "ManyStreams|Services|"
      "PacketCapture|GenerateConfiguration)$",
      kMaster);
}

TEST_F(Clients, C_Etcd) {
  runTests("^TestBootstrap$", kMaster);
  ASSERT_TRUE(threeVote());
  runTests("^Test(Etcd|Containers|LocalMember)$", kMaster);
}

TEST_F(Clients, D_SomeNodesFail) {
  cluster->ok({"cluster", "node", "kill", nameOf(kDown)});
  runTests("^TestMixedNodes$", kMaster);
  auto slow = cluster->program(nameOf(kOther), "machined");
  ASSERT_GT(slow, 0);
  ASSERT_EQ(0, kill(slow, SIGSTOP));
  runTests("^TestSlowNode$", kMaster);
  ASSERT_EQ(0, kill(slow, SIGCONT));
  runTests("^TestSlowNodeGoesOn$", kMaster);
  cluster->ok({"cluster", "node", "start", nameOf(kDown)});
  for (auto node : {kWithout, kSecond}) giveConfig(node);
}

TEST_F(Clients, E_ThreeControlPlanesAndTwoWorkers) {
  for (auto node : {kDown, kWithout, kSecond}) {
    ASSERT_TRUE(up(node)) << node << cluster->console(nameOf(node));
    // Also through the other node, which may still wait for an earlier answer.
    auto through = cluster->endpoint(kMaster);
    EXPECT_TRUE(eventually(
        [&] { return cluster->talosctl({"-e", through, "-n", node, "version"}, 20).status == 0; },
        kBoot, 0.5));
  }
  ASSERT_TRUE(threeVote());
  runTests("^Test(EveryNode|EveryNodeTells|EveryMember|Refused|Health|UnknownKeys|ConfigKeys)$",
           kMaster);
}

// These tests are last: they leave another boot, or no node.
TEST_F(Clients, F_Reboot) {
  runTests("^TestReboot$", kOther);
  ASSERT_TRUE(up(kOther) && threeVote());
  runTests("^TestMembersGo$", kMaster);
  runTests("^TestEtcdRecover$", kMaster);
}

TEST_F(Clients, G_ResetAndShutdown) {
  runTests("^TestReset$", kWithout);
  giveConfig(kWithout);  // it has lost its config
  runTests("^TestShutdown$", kOther);
  auto process1 = cluster->process(nameOf(kOther));
  EXPECT_TRUE(eventually([&] { return kill(process1, 0) != 0; }, kBoot, 0.2));
}

// The fingerprint that `cluster create` prints for the first node.
std::string fingerprintIn(const std::string& table) {
  constexpr size_t kLength = 44;  // base64 of 32 bytes
  auto end = table.find("=\n");
  if (end == std::string::npos || end + 1 < kLength) return "";
  return table.substr(end + 1 - kLength, kLength);
}

// The sequences of programs that make clusters, from a machine without a config and back to it.
TEST(Providers, FromMaintenanceToReset) {
  ASSERT_NE(harness::foreignClient(), "") << "CLIENTS is not set: `make test` compiles them";
  Cluster cluster("providers", {"--provisioner", "container", "--masters", "1", "--workers", "0",
                                "--skip-injecting-config"});
  auto fingerprint = fingerprintIn(cluster.creation().out);
  ASSERT_NE(fingerprint, "") << cluster.creation().out;
  for (auto test : {"^TestTerraform$", "^TestClusterAPI$", "^TestIsNewAgain$"}) {
    harness::runForeignClient(cluster, test, kMaster,
                              {"HOSTNAME_OF_NODE=providers-master-1", "FINGERPRINT=" + fingerprint,
                               "CONFIG=" + cluster.stateFolder() + "/providers-master-1.yaml"});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace talos
