// Several nodes: one call to many, a node that is down, clusters side by side, and what remains of
// them. The nodes are containers: no test in this file needs its own kernel. For the remains of a
// killed supervisor see power-test.cc.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::lines;
using harness::processesWith;
using harness::slurp;
namespace fs = std::filesystem;

std::vector<std::string> size(const char* masters) {
  return {"--masters", masters, "--workers", "0", "--provisioner", "container"};
}

TEST(Clusters, ThreeNodesAnswerAndOneThatIsDownIsNamed) {
  Cluster three("three", size("3"));
  auto version = three.talosctl({"-n", "10.5.0.2,10.5.0.3,10.5.0.4", "version"});
  EXPECT_EQ(version.status, 0) << version.err;
  for (auto node : {"10.5.0.2", "10.5.0.3", "10.5.0.4"})
    EXPECT_TRUE(contains(version.out, node)) << version.out;

  auto off = three.talosctl({"-n", "10.5.0.4", "shutdown"}, 120);
  EXPECT_EQ(off.status, 0) << off.err;
  auto some =
      three.talosctl({"-n", "10.5.0.2,10.5.0.3,10.5.0.4", "--timeout", "15s", "version"}, 60);
  EXPECT_EQ(some.status, 0) << "two of three answered: " << some.err;
  EXPECT_TRUE(contains(some.out, "10.5.0.2") && contains(some.out, "10.5.0.3")) << some.out;
  EXPECT_TRUE(contains(some.err, "10.5.0.4")) << some.err;
  EXPECT_LT(some.seconds, 30);

  auto none = three.talosctl({"-n", "10.5.0.4", "--timeout", "10s", "version"}, 60);
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(contains(none.err, "10.5.0.4")) << none.err;
  // The others have acted: the node that has not is a warning.
  auto restart = three.talosctl(
      {"-n", "10.5.0.2,10.5.0.4", "--timeout", "10s", "service", "networkd", "restart"}, 60);
  EXPECT_EQ(restart.status, 0) << restart.err;
  EXPECT_TRUE(contains(restart.err, "10.5.0.4")) << restart.err;
  // No such machine at all.
  auto nobody = three.talosctl({"-n", "10.5.0.77", "--timeout", "10s", "version"}, 60);
  EXPECT_EQ(nobody.status, 1);
  EXPECT_TRUE(contains(nobody.err, "10.5.0.77")) << nobody.err;
}

// Catches: a message without the place, a hang, or a wrong exit status.
TEST(Clusters, WrongConfigurationsAreNamedWithoutACluster) {
  char folder[] = "/tmp/talos-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  auto broken = std::string(folder) + "/broken";
  std::ofstream(broken)
      << "context: a\ncontexts:\n    a:\n        endpoints: 127.0.0.1\n        - x\n";
  auto syntax = harness::run({harness::talosctlPath(), "--talosconfig", broken, "version"}, 30);
  EXPECT_EQ(syntax.status, 1);
  EXPECT_TRUE(contains(syntax.err, broken + ":5:")) << syntax.err;

  auto missing = harness::run({harness::talosctlPath(), "--talosconfig",
                               std::string(folder) + "/none", "-n", "1.2.3.4", "version"},
                              30);
  EXPECT_EQ(missing.status, 1);
  EXPECT_FALSE(missing.err.empty());

  ASSERT_EQ(harness::run({harness::talosctlPath(), "gen", "config", "lost",
                          "https://127.0.0.1:6443", "-o", folder},
                         30)
                .status,
            0);
  auto unreachable =
      harness::run({harness::talosctlPath(), "--talosconfig", std::string(folder) + "/talosconfig",
                    "-e", "127.255.3.4", "-n", "10.0.0.9", "--timeout", "5s", "version"},
                   30);
  EXPECT_EQ(unreachable.status, 1);
  EXPECT_TRUE(contains(unreachable.err, "127.255.3.4")) << unreachable.err;
  EXPECT_LT(unreachable.seconds, 15);
  fs::remove_all(folder);
}

TEST(Clusters, TwoWithTheSameNetworkCoexistAndLeaveNothing) {
  std::string one, two;
  std::set<std::string> theirs;  // network namespaces of the two clusters
  std::set<harness::Inhabitant> before;
  {
    Cluster a("twin-a", size("1"));
    Cluster b("twin-b", size("1"));
    one = a.stateFolder();
    two = b.stateFolder();
    auto boot = [](const Cluster& c) { return c.ok({"read", "/proc/sys/kernel/random/boot_id"}); };
    EXPECT_NE(boot(a), boot(b)) << "both configurations lead to the same machine";
    EXPECT_TRUE(contains(a.ok({"get", "mc", "-o", "yaml"}), "clusterName: twin-a"));
    EXPECT_TRUE(contains(b.ok({"get", "mc", "-o", "yaml"}), "clusterName: twin-b"));
    std::set<pid_t> pids;
    for (auto& folder : {one, two}) pids.merge(processesWith(folder));
    for (auto& each : harness::namespacesOf(pids)) {
      if (each.starts_with("net:")) theirs.insert(each);
    }
    theirs.erase(fs::read_symlink("/proc/self/ns/net").string());
    EXPECT_EQ(theirs.size(), 2);
    before = harness::inhabitantsOf(theirs);
    EXPECT_TRUE(harness::stay(before)) << "the check below would see nothing";
    a.ok({"cluster", "destroy"});
    EXPECT_FALSE(fs::exists(one));
    EXPECT_FALSE(contains(slurp(a.talosconfig()), "twin-a")) << "its context leads nowhere";
    EXPECT_EQ(b.talosctl({"version"}).status, 0) << "the other cluster was hit";
  }
  EXPECT_TRUE(
      eventually([&] { return processesWith(one).empty() && processesWith(two).empty(); }, 10));
  EXPECT_FALSE(fs::exists(two));
  EXPECT_TRUE(eventually([&] { return !harness::stay(before); }, 10));
  auto mounts = slurp("/proc/self/mountinfo");
  EXPECT_FALSE(contains(mounts, "talos-test"));
}

// Catches: a supervisor or its machines that outlive an interrupted creation.
TEST(Clusters, InterruptedCreationLeavesNothing) {
  char folder[] = "/tmp/talos-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  std::string state = std::string(folder) + "/clusters";
  {
    harness::Background create({harness::talosctlPath(), "--talosconfig",
                                std::string(folder) + "/talosconfig", "cluster", "create", "--name",
                                "cut", "--state", state, "--masters", "1", "--workers", "0",
                                "--memory", "384", "--provisioner", "qemu"});
    ASSERT_TRUE(create.waitFor(
        [](const std::string&, const std::string& err) { return contains(err, "waiting for API"); },
        60))
        << create.out() << create.err();
    EXPECT_FALSE(processesWith(state + "/cut").empty());
    EXPECT_EQ(create.interrupt(30), 1);
  }
  EXPECT_TRUE(eventually([&] { return processesWith(state + "/cut").empty(); }, 10));
  EXPECT_FALSE(fs::exists(state + "/cut"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace talos
