// upgrade and rollback, up to the point where the node acts by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <unistd.h>

#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct UpgradeCommands : public ClusterTest {
  FakeUpgrades& node(kj::StringPtr address) { return ClusterTest::node(address).upgrades; }
};

// Catches: nodes that are called one after the other for the effect on etcd, so that a hanging node
// delays the others; a node that cannot report its effect and is not mentioned; an effect for a
// worker.
TEST_F(UpgradeCommands, PrintsTheConsequenceForEtcdFirst) {
  node("10.0.0.2").voters = 3;
  node("10.0.0.3").etcdHangs = node("10.0.0.4").etcdHangs = true;
  node("10.0.0.5");
  auto before = c.clock.now();
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5", "upgrade", "--image", "x/i:v2",
                   "--wait=false"}),
            0);
  EXPECT_LT(c.clock.now() - before, 50 * kj::SECONDS);
  auto text = err();
  EXPECT_THAT(text,
              HasSubstr("10.0.0.2: etcd has 3 voters, which tolerate 1 failure; without m1 it "
                        "has 2 voters, which tolerate no failure, until it has joined again\n"
                        "10.0.0.3: the effect on etcd is not known: no answer within 30s\n"
                        "10.0.0.4: the effect on etcd is not known: "));
  EXPECT_THAT(text, Not(HasSubstr("10.0.0.5: the effect")));
  EXPECT_THAT(text, Not(HasSubstr("10.0.0.5: etcd")));
  EXPECT_STREQ("upgrade x/i:v2", node("10.0.0.5").asked[0].cStr());
}

// Catches: Ctrl-C that has no effect until a large image has been read.
TEST_F(UpgradeCommands, AnImageThatIsReadIsInterrupted) {
  constexpr uint64_t kSize = 256u << 20;
  auto path = kj::str(c.folder, "/image.tar");
  writeFileAtomically(path, ""_kj, 0600);
  KJ_SYSCALL(truncate(path.cStr(), kSize));
  auto before = bytesRead();
  EXPECT_EQ(c.finish(c.start({"-n", "10.0.0.2", "upgrade", "-i", path}, kj::READY_NOW)), 130);
  EXPECT_LT(bytesRead() - before, kSize / 4);
}

// Catches: a rollback that does not print its effect on etcd; a flag that is not passed on.
TEST_F(UpgradeCommands, ARollbackIsARestart) {
  node("10.0.0.2").voters = 2;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "rollback", "--wait=false"}), 0);
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: etcd has 2 voters, which tolerate no failure; while m1 "
                               "restarts it has 2 voters, 1 of which does not answer: no quorum"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "rollback", "--force", "--wait=false"}), 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "upgrade", "-i", "x/i:v2", "-p", "-f", "--wait=false"}), 0);
  EXPECT_STREQ("rollback; rollback forced; upgrade x/i:v2 preserve forced",
               kj::strArray(node("10.0.0.2").asked, "; ").cStr());
}

// Catches: a node that is followed to a reboot which does not happen.
TEST_F(UpgradeCommands, ARollbackWithdrawsWhatIsStaged) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "upgrade", "-i", "x/i:v2", "--stage", "--wait=false"}), 0);
  EXPECT_STREQ("upgrade x/i:v2 staged", node("10.0.0.2").asked[0].cStr());
  node("10.0.0.2").staged = "B v2";
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "rollback"}), 0);
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: withdrew B v2, which was staged; the node does not "
                               "reboot\n"));
}

// Catches: a node without support for staging that reboots at once.
TEST_F(UpgradeCommands, ANodeThatCannotStageIsNotUpgraded) {
  node("10.0.0.2").canStage = false;
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2,10.0.0.3", "upgrade", "-i", "x/i:v2", "--stage", "--wait=false"}), 1);
  auto text = err();
  EXPECT_THAT(text, HasSubstr("error: 10.0.0.2: the node cannot stage an upgrade: "));
  EXPECT_EQ(text.find("cannot stage"), text.rfind("cannot stage")) << "once: " << text;
  EXPECT_EQ(node("10.0.0.2").asked.size(), 0u);
  EXPECT_EQ(node("10.0.0.3").asked.size(), 1u);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "upgrade", "-i", "x/i:v2", "--wait=false"}), 0);
}

// Catches: nodes that are upgraded at the same time; a node that is called before the previous one
// is confirmed; a node that is skipped.
TEST_F(UpgradeCommands, SeveralNodesTakeTurns) {
  node("10.0.0.2").outcome = node("10.0.0.3").outcome = "done";
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "upgrade", "-i", "x/i:v2", "-p"}), 0);
  EXPECT_EQ(err(),
            "10.0.0.3: waiting for its turn\n"
            "10.0.0.2: fetching x/i:v2\n"
            "10.0.0.2: running slot B (v2), healthy and confirmed after 0s\n"
            "10.0.0.3: fetching x/i:v2\n"
            "10.0.0.3: running slot B (v2), healthy and confirmed after 0s\n");
}

// Catches: a bad system that is installed on every node; a node that is left out without a message.
TEST_F(UpgradeCommands, TheFirstFailureLeavesTheOthersAsTheyAre) {
  node("10.0.0.2").outcome = node("10.0.0.4").outcome = "done";
  node("10.0.0.3").outcome = "failed", node("10.0.0.3").outcomeReason = "apid is not up";
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5", "upgrade", "-i", "x/i:v2"}), 1);
  auto text = err();
  EXPECT_THAT(text, HasSubstr("  10.0.0.3: apid is not up; back on slot B (v2)\n"));
  EXPECT_THAT(text, HasSubstr("10.0.0.5: left as it is, because 10.0.0.3 failed; repeat it with "
                              "--nodes 10.0.0.4,10.0.0.5 when that is well\n"));
  EXPECT_EQ(node("10.0.0.2").asked.size(), 1u);
  EXPECT_EQ(node("10.0.0.4").asked.size(), 0u);
  EXPECT_EQ(node("10.0.0.5").asked.size(), 0u);
  // A node that refuses has the same effect.
  node("10.0.0.4").outcome = "";
  EXPECT_EQ(c.run({"-n", "10.0.0.9,10.0.0.2", "upgrade", "-i", "x/i:v2"}), 1);
  EXPECT_EQ(node("10.0.0.2").asked.size(), 1u);
}

// Catches: turns although nothing reboots, or although the command does not wait.
TEST_F(UpgradeCommands, WithoutAWaitAllAreAskedAtOnce) {
  node("10.0.0.2").outcome = "failed";
  node("10.0.0.3");
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "upgrade", "-i", "x/i:v2", "--wait=false"}), 0);
  EXPECT_EQ(node("10.0.0.3").asked.size(), 1u);
  node("10.0.0.2").outcome = node("10.0.0.3").outcome = "staged";
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "upgrade", "-i", "x/i:v2", "--stage"}), 0);
  EXPECT_THAT(err(), Not(HasSubstr("turn")));
}

// Catches: a failed node that seems to be waited for until the last of the others has ended.
TEST_F(UpgradeCommands, AFailureIsShownWhileOthersAreFollowed) {
  node("10.0.0.2").outcome = "failed";
  node("10.0.0.3");
  c.test.console.terminal = true;
  auto run = c.start({"-n", "10.0.0.2,10.0.0.3", "upgrade", "-i", "x/i:v2", "--stage"});
  c.settle();
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: failed"));
  node("10.0.0.3").stage = kj::str("staged");
  EXPECT_EQ(c.finish(kj::mv(run)), 1);
}

// Catches: a system that is confirmed without a message about its missing health.
TEST_F(UpgradeCommands, AConfirmationPrintsWhatIsLacking) {
  node("10.0.0.2").lacks = "voter of etcd: no leader";
  node("10.0.0.3");
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "confirm-upgrade"}), 0);
  auto text = err();
  EXPECT_THAT(text, HasSubstr("10.0.0.2: confirmed, although: voter of etcd: no leader\n"));
  EXPECT_THAT(text, HasSubstr("10.0.0.3: confirmed\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "confirm-upgrade", "-o", "json"}), 0);
  EXPECT_EQ(out(),
            "{\"node\":\"10.0.0.2\",\"done\":true,\"lacked\":\"voter of etcd: no leader\"}\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "confirm-upgrade", "-o", "yaml"}), 0);
  EXPECT_EQ(out(), "---\nnode: 10.0.0.2\ndone: true\nlacked: \"voter of etcd: no leader\"\n");
}

}  // namespace
}  // namespace talos::talosctl
