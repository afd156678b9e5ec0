#include "talosctl/recover/recovery-run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/base/error.h"
#include "common/testing/virtual-time.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/recover/test-recovery-nodes.h"

namespace talos::talosctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The first node survives out of three, and two machines are new. A node that is erased is away for
// one survey; after the restore, each node takes one survey more than the previous one to vote.
struct ModelControlPlane final : public RecoveryCluster {
  std::vector<std::string> done;  // "erase 10.5.0.2", "restore"
  std::set<std::string> sticky;   // nodes that cannot be erased
  std::set<std::string> slow;     // nodes whose erasure never ends
  bool secondHasData = false;
  bool erased = false, away = false, restored = false, joins = true;
  unsigned voters = 0;

  kj::Promise<kj::Array<RecoveryNode>> survey() override {
    auto nodes = kj::arr(survivorOf(1, {1, 2, 3}), emptyNode(2), emptyNode(3));
    if (secondHasData) nodes[1] = survivorOf(2, {1, 2, 3});
    if (erased) nodes[0] = emptyNode(1);
    if (away) {
      nodes[0] = RecoveryNode();
      nodes[0].address = kj::str("10.5.0.2");
      nodes[0].silence = kj::str("no answer");
      away = false;
    }
    if (restored) {
      voters = kj::min(voters + 1, joins ? 3u : 2u);
      for (unsigned i = 0; i < voters; ++i) {
        nodes[i].phase = kj::str("member");
        nodes[i].quorum = true;
      }
    }
    return kj::mv(nodes);
  }
  kj::Promise<void> erase(const RecoveryNode& node, Progress&, size_t index) override {
    done.push_back(kj::str("erase ", node.address, " ", node.bootId, " ", index).cStr());
    if (sticky.count(node.address.cStr())) fail(ErrorKind::kUnavailable, "its disk is gone");
    if (slow.count(node.address.cStr())) return kj::NEVER_DONE;
    erased = away = true;
    return kj::READY_NOW;
  }
  kj::Promise<void> restore(Progress&) override {
    EXPECT_TRUE(erased && !away) << "a node would join with its old data";
    done.push_back("restore");
    restored = true;
    return kj::READY_NOW;
  }
};

struct RecoveryRunTest : public testing::Test {
  ~RecoveryRunTest() noexcept override {}
  ConsoleFixture test;
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelControlPlane cluster;
  kj::Array<kj::String> names =
      kj::arr(kj::str("10.5.0.2"), kj::str("10.5.0.3"), kj::str("10.5.0.4"));
  SignedSnapshot snapshot = signedSnapshot();
  RecoveryOptions options{.request = {}, .revision = 90, .snapshot = snapshot};
  bool yes = true;
  std::vector<std::string> said;

  // Returns "yes", "no", or the error.
  std::string run() {
    said.clear();
    Progress progress(test.console, names);
    RecoveryRun run(
        timer, cluster, progress, names, options,
        [this](kj::StringPtr line) { said.push_back(line.cStr()); },
        [this](kj::StringPtr) -> kj::Promise<bool> { return yes; });
    return outcomeOf(timer, test.io.waitScope, run.run(),
                     [](bool done) { return done ? "yes" : "no"; });
  }
};

}  // namespace

TEST_F(RecoveryRunTest, ErasesThenRestoresThenWaitsForAllVotes) {
  EXPECT_EQ("yes", run());
  EXPECT_THAT(cluster.done, ElementsAre("erase 10.5.0.2 boot-1 0", "restore"));
  EXPECT_EQ(3, cluster.voters) << "it has not waited until all vote";
  EXPECT_THAT(said, ElementsAre(HasSubstr("signed by a member of etcd"),
                                HasSubstr("10 newer than the snapshot (90), which are lost"),
                                HasSubstr("10.5.0.2: erases EPHEMERAL"),
                                HasSubstr("10.5.0.2: restores the snapshot, revision 90; the "
                                          "others join it"),
                                HasSubstr("join tokens that the snapshot has are revoked")));
}

// Catches: a node whose data is erased for a foreign snapshot.
TEST_F(RecoveryRunTest, NothingIsErasedForASnapshotOfAnotherCluster) {
  snapshot = signedSnapshot(pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256}));
  options.request.force = true;
  EXPECT_EQ("not recovered; nothing was changed", run());
  EXPECT_THAT(cluster.done, IsEmpty());
  options.snapshot = nullptr;
  EXPECT_EQ("yes", run());
  EXPECT_THAT(said, testing::Contains(HasSubstr("is not verified (--unsigned)")));
}

// Catches: a second run that changes something while the others are still joining.
TEST_F(RecoveryRunTest, IsRefusedOnceItIsDone) {
  EXPECT_EQ("yes", run());
  cluster.voters = 0;
  cluster.done.clear();
  EXPECT_EQ("not recovered; nothing was changed", run());
  EXPECT_THAT(cluster.done, IsEmpty());
  EXPECT_THAT(said,
              ElementsAre(HasSubstr("10.5.0.2 is a member of a cluster that has its quorum")));
}

// Catches: a run that was interrupted after the erasure and cannot be repeated.
TEST_F(RecoveryRunTest, ContinuesAfterTheErasure) {
  cluster.erased = true;
  EXPECT_EQ("yes", run());
  EXPECT_THAT(cluster.done, ElementsAre("restore"));
}

TEST_F(RecoveryRunTest, ChangesNothingWhenItMayNot) {
  yes = false;
  EXPECT_EQ("no", run());
  yes = true;
  options.dryRun = true;
  EXPECT_EQ("no", run());
  EXPECT_THAT(cluster.done, IsEmpty());
}

// Catches: a snapshot that is restored beside a node that still has the old data.
TEST_F(RecoveryRunTest, RestoresNothingBesideANodeThatCannotBeErased) {
  cluster.sticky = {"10.5.0.2"};
  EXPECT_EQ(
      "not all nodes were erased, and no snapshot was restored: 10.5.0.2: its disk is gone; "
      "repair that and repeat the command",
      run());
  EXPECT_THAT(cluster.done, ElementsAre("erase 10.5.0.2 boot-1 0"));
}

// Catches: a failed node that seems to be in progress until the last of the others is erased.
TEST_F(RecoveryRunTest, AFailureIsShownWhileOthersAreErased) {
  cluster.secondHasData = options.request.force = true;
  cluster.sticky = {"10.5.0.2"}, cluster.slow = {"10.5.0.3"};
  test.console.terminal = true;
  Progress progress(test.console, names);
  RecoveryRun run(
      timer, cluster, progress, names, options, [](kj::StringPtr) {},
      [](kj::StringPtr) -> kj::Promise<bool> { return true; });
  auto running = run.run();
  EXPECT_FALSE(running.poll(test.io.waitScope));
  EXPECT_THAT(test.console.takeErr().cStr(), HasSubstr("10.5.0.2: failed"));
}

TEST_F(RecoveryRunTest, SaysWhoDoesNotJoin) {
  cluster.joins = false;
  EXPECT_EQ(
      "the snapshot is restored, but not all nodes are members within 10m0s: 10.5.0.4: waiting",
      run());
}

}  // namespace talos::talosctl
