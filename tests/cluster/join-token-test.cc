// Join tokens in a cluster: one control-plane node in a container with its etcd and two workers,
// each of which joins again, without a STATE, with the token that its config has then; or one
// worker, a virtual machine, which installs itself.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr double kTimeout = 480;  // s; beside other tests, a worker emulated

struct Worker {
  std::string name, address;
};
const std::string kMaster = "10.5.0.2";
const Worker kFirst{"tokens-worker-1", "10.5.0.3"}, kSecond{"tokens-worker-2", "10.5.0.4"};

struct TokenCluster : ::testing::Test {
  Cluster cluster;

  explicit TokenCluster(std::vector<std::string> createFlags = {"--workers", "2"})
      : cluster("tokens", with(std::move(createFlags))) {}
  static std::vector<std::string> with(std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--provisioner", "container", "--masters", "1"});
    return flags;
  }
  void SetUp() override {
    harness::Result listed;
    ASSERT_TRUE(eventually(
        [&] {
          cluster.talosctl({"-n", kMaster, "bootstrap"}, 120);  // refused once it is done
          listed = cluster.talosctl({"-n", kMaster, "token", "list"});
          return listed.status == 0;
        },
        kTimeout, 1))
        << listed.out << listed.err;
  }
  std::string create(std::vector<std::string> flags = {}) const {
    std::vector<std::string> arguments{"-n", kMaster, "token", "create"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    auto token = cluster.ok(arguments);
    return token.substr(0, token.find('\n'));
  }
  static std::string idOf(const std::string& token) { return token.substr(5, 6); }
  std::string list() const { return cluster.ok({"-n", kMaster, "token", "list", "-o", "json"}); }

  std::filesystem::path state(const Worker& worker) const {
    return cluster.stateFolder() + "/" + worker.name + "/state";
  }
  void stop(const Worker& worker) const {
    cluster.ok({"cluster", "node", "kill", worker.name}, 120);
  }
  void start(const Worker& worker) const {
    auto started = cluster.talosctl({"cluster", "node", "start", worker.name}, 120);
    EXPECT_EQ(started.status, 0) << started.err;
  }
  // The node as a new one, whose config has this token.
  void renew(const Worker& worker, const std::string& token) const {
    stop(worker);
    cluster.eraseAll(worker.name);
    cluster.setJoinToken(worker.name, token);
    start(worker);
  }
  std::string service(const Worker& worker) const {
    auto shown = cluster.talosctl({"-e", cluster.endpoint(kMaster), "-n", worker.address,
                                   "--timeout", "20s", "service", "apid"});
    return shown.out + shown.err;
  }
  // Expects that the worker's certificate verifies.
  void expectJoined(const Worker& worker) const {
    harness::Result shown;
    EXPECT_TRUE(eventually(
        [&] {
          shown = cluster.talosctl({"-e", cluster.endpoint(kMaster), "-n", worker.address,
                                    "--timeout", "20s", "version"});
          return shown.status == 0 && !contains(shown.out + shown.err, "not authenticated");
        },
        kTimeout, 1))
        << shown.out << shown.err << service(worker);
  }
  void expectRefused(const Worker& worker, const std::string& error) const {
    std::string shown;
    EXPECT_TRUE(eventually(
        [&] {
          shown = service(worker);
          return contains(shown, error);
        },
        kTimeout, 1))
        << error << ": " << shown;
  }
};

// Catches: a token with which two workers join; a worker that is cut off by a reboot, or by a power
// cut between the answer and its disk; a secret in a log.
TEST_F(TokenCluster, OneWorkerJoinsOnceAndComesBack) {
  auto token = create({"--ttl", "1h"});
  renew(kFirst, token);
  expectJoined(kFirst);
  EXPECT_TRUE(contains(list(), "\"usedBy\": \"" + kFirst.name)) << list();
  renew(kSecond, token);
  expectRefused(kSecond, "the join token " + idOf(token) + " was used by another node");
  cluster.ok({"-e", cluster.endpoint(kMaster), "-n", kFirst.address, "reboot"}, 300);
  expectJoined(kFirst);
  // Stands for a power cut before the node's certificate was on the disk.
  stop(kFirst);
  ASSERT_TRUE(std::filesystem::remove(state(kFirst) / "api-certificate"));
  ASSERT_TRUE(std::filesystem::exists(state(kFirst) / "join-key"));
  start(kFirst);
  expectJoined(kFirst);
  for (auto id : {"trustd", "etcd-supervisor", "audit", "machined"}) {
    EXPECT_FALSE(contains(cluster.ok({"-n", kMaster, "logs", id}), token.substr(12))) << id;
  }
  EXPECT_TRUE(contains(cluster.ok({"-n", kMaster, "logs", "audit"}), "Etcd.createJoinToken"));
}

struct TokenOfAMachine : TokenCluster {
  TokenOfAMachine()
      : TokenCluster({"--workers", "1", "--virtual-machines", "1", "--with-bootloader", "--memory",
                      "1024", "--disk", "2048", "--no-uplink", "--wait=false"}) {}
};

// Catches: an installation that spends the token for a key which is lost with the reboot at its
// end, so that the installed worker never joins.
TEST_F(TokenOfAMachine, IsSpentForTheInstalledSystem) {
  stop(kFirst);
  auto disk = cluster.stateFolder() + "/" + kFirst.name + ".disk";
  auto size = std::filesystem::file_size(disk);
  std::filesystem::resize_file(disk, 0);
  std::filesystem::resize_file(disk, size);
  cluster.setJoinToken(kFirst.name, create());
  auto seen = cluster.console(kFirst.name).size();
  start(kFirst);
  ASSERT_TRUE(eventually(
      [&] { return contains(cluster.console(kFirst.name).substr(seen), "installed on /dev/vda"); },
      harness::kBoots, 1))
      << cluster.console(kFirst.name);
  expectJoined(kFirst);
}

// Catches: a token that is good when it must not be, or whose refusal the worker does not explain;
// an unavailable etcd that looks like a wrong token, or after which nodes do not retry.
TEST_F(TokenCluster, TheRefusedSayWhyAndAnEtcdThatIsBackLetsThemIn) {
  auto revoked = create(), ended = create({"--ttl", "1m"}),
       bound = create({"--hostname", kFirst.name});
  cluster.ok({"-n", kMaster, "token", "revoke", idOf(revoked)});
  renew(kFirst, revoked);
  renew(kSecond, bound);
  expectRefused(kFirst, "the join token " + idOf(revoked) + " was revoked at ");
  expectRefused(kSecond, "is for the host name " + kFirst.name);
  ASSERT_TRUE(eventually([&] { return contains(list(), "\"state\": \"expired\""); }, 120, 1));
  renew(kSecond, ended);
  expectRefused(kSecond, "the join token " + idOf(ended) + " expired at ");
  renew(kSecond, "join-zzzzzz.0123456789abcdef");
  expectRefused(kSecond, "wrong token");

  auto etcd = cluster.program("tokens-master-1", "etcd");
  ASSERT_NE(etcd, 0);
  ASSERT_EQ(kill(etcd, SIGSTOP), 0);
  renew(kFirst, bound);
  expectRefused(kFirst, "cannot verify the join token: ");
  ASSERT_EQ(kill(etcd, SIGCONT), 0);
  expectJoined(kFirst);
}

}  // namespace
}  // namespace talos
