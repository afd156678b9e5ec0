// Disk faults and power cuts in the middle of an upgrade.
#include <gmock/gmock.h>

#include "common/testing/virtual-time.h"
#include "machined/upgrade/test-upgrader.h"

namespace talos::machined {
namespace {

using install::Slot;
using testing::ElementsAre;
using testing::HasSubstr;

struct UpgradeFaults : UpgraderTest {
  ~UpgradeFaults() noexcept override {}

  // Upgrades up to the reboot into slot B; EPHEMERAL is to be emptied.
  void chooseOther() {
    rollBack();
    KJ_ASSERT_NONNULL(disk.record).empty = true;
  }
  // Replaces the disk by one that slot B left when the power was cut in the middle of emptying.
  void emptyHalf() {
    disk.environment = {};
    disk.record = nullptr;
    disk.cleared.clear();
    chooseOther();
    disk.clearFails = true;
    System fresh(disk);
    ASSERT_EQ(fresh.running, Slot::kB);
    fresh.lacks = "x";
    fresh.boot(scope);
    EXPECT_EQ(problem(fresh.upgrader.emptyEphemeralIfAsked()), "the power is gone");
  }
};

}  // namespace

// Catches: a partly zeroed EPHEMERAL that no system mounts any more; an EPHEMERAL that is zeroed
// before this is recorded, or again when it has data again.
TEST_F(UpgradeFaults, EmptyingIsEndedByWhicheverSystemIsStarted) {
  for (bool again : {false, true}) {
    emptyHalf();
    disk.clearFails = false;
    if (again) ++disk.environment.tries;
    System next(disk);
    EXPECT_EQ(next.running, again ? Slot::kB : Slot::kA);
    next.lacks = "x";
    next.boot(scope);
    EXPECT_EQ(problem(next.upgrader.emptyEphemeralIfAsked()), "");
    EXPECT_EQ(problem(next.upgrader.emptyEphemeralIfAsked()), "");
    EXPECT_THAT(disk.cleared, ElementsAre("/dev/vda6 16777216", "/dev/vda6 16777216"));
    System last(disk);
    last.boot(scope);
    EXPECT_EQ(problem(last.upgrader.emptyEphemeralIfAsked()), "");
    EXPECT_EQ(disk.cleared.size(), 2u);
  }
}

// Catches: a partly zeroed EPHEMERAL that is forgotten with the upgrade that requested it, when a
// rollback takes its place: after the emptying has failed again, or during it.
TEST_F(UpgradeFaults, EmptyingIsNotForgottenByARollback) {
  for (bool during : {false, true}) {
    emptyHalf();
    {
      System old(disk);
      ASSERT_EQ(old.running, Slot::kA);
      old.boot(scope);
      auto gate = kj::newPromiseAndFulfiller<void>();
      if (during) disk.clears = kj::mv(gate.promise);
      auto emptying = old.upgrader.emptyEphemeralIfAsked();
      scope.poll();
      if (!during) EXPECT_EQ(problem(kj::mv(emptying)), "the power is gone");
      old.upgrader.rollback(60).wait(scope);
      EXPECT_TRUE(KJ_ASSERT_NONNULL(disk.record).emptying);
      EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).stage, UpgradeRecord::Stage::WRITTEN);
      if (during) {
        disk.clearFails = false;
        gate.fulfiller->fulfill();
        EXPECT_EQ(problem(kj::mv(emptying)), "");
        EXPECT_FALSE(KJ_ASSERT_NONNULL(disk.record).emptying);
        EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).stage, UpgradeRecord::Stage::WRITTEN);
      }
    }
    disk.clearFails = false;
    System fresh(disk);
    ASSERT_EQ(fresh.running, Slot::kB);
    fresh.lacks = "x";
    fresh.boot(scope);
    EXPECT_EQ(problem(fresh.upgrader.emptyEphemeralIfAsked()), "");
    EXPECT_EQ(disk.cleared.size(), during ? 2u : 3u);
    EXPECT_FALSE(KJ_ASSERT_NONNULL(disk.record).emptying);
  }
}

// Catches: a partly zeroed EPHEMERAL that is forgotten with an upgrade that a power cut
// interrupted, and that is retried as if nothing were known of it.
TEST_F(UpgradeFaults, EmptyingIsNotForgottenWhenAnotherTryBegins) {
  emptyHalf();
  disk.environment = {};
  auto& record = KJ_ASSERT_NONNULL(disk.record);
  record.stage = UpgradeRecord::Stage::WRITING;
  record.from = Slot::kA;
  record.to = Slot::kB;
  disk.clearFails = false;
  System old(disk);
  Upgrader::BeginsAnew again = [](const UpgradeRecord&) -> kj::Promise<bool> { return true; };
  old.upgrader.resume(kj::mv(again)).wait(scope);
  EXPECT_FALSE(old.upgrader.isUnderWay());
  EXPECT_TRUE(old.said.empty()) << "it is no failure";
  EXPECT_EQ(problem(old.upgrader.emptyEphemeralIfAsked()), "");
  EXPECT_EQ(disk.cleared.size(), 2u);
  EXPECT_FALSE(KJ_ASSERT_NONNULL(disk.record).emptying);
}

// Catches: a record that is replaced by an older one, which was given to the disk before it and is
// written after it.
TEST_F(UpgradeFaults, TheNewestRecordIsTheLastThatIsWritten) {
  emptyHalf();
  disk.clearFails = false;
  System old(disk);
  ASSERT_EQ(old.running, Slot::kA);
  old.boot(scope);
  disk.slow = true;
  auto emptying = old.upgrader.emptyEphemeralIfAsked();
  scope.poll();
  auto rollback = old.upgrader.rollback(60);
  // The last record that is given is the first that is written.
  for (unsigned i = 0; i < 10 && scope.poll() + disk.saves.size() > 0; ++i) {
    EXPECT_LE(disk.saves.size(), 1u) << "the second one may be written first";
    if (disk.saves.empty()) continue;
    auto last = kj::mv(disk.saves.back());
    disk.saves.pop_back();
    last->fulfill();
  }
  EXPECT_EQ(problem(kj::mv(emptying)), "");
  EXPECT_EQ(problem(kj::mv(rollback)), "");
  auto& kept = KJ_ASSERT_NONNULL(disk.record);
  EXPECT_EQ(kept.image, "") << "the rollback's";
  EXPECT_EQ(kept.stage, UpgradeRecord::Stage::WRITTEN);
  EXPECT_FALSE(kept.emptying);
}

// Catches: data that is emptied before this is recorded.
TEST_F(UpgradeFaults, NothingIsEmptiedWithoutItsRecord) {
  chooseOther();
  System fresh(disk);
  fresh.lacks = "x";
  fresh.boot(scope);
  disk.full = true;
  EXPECT_EQ(problem(fresh.upgrader.emptyEphemeralIfAsked()), "STATE is full");
  EXPECT_THAT(disk.cleared, ElementsAre());
}

// Catches: a choice for the boot loader that was reported as failed and starts the other system
// later, or that a restart of machined carries out.
TEST_F(UpgradeFaults, AChoiceThatFailedIsRevoked) {
  disk.silentChoices = 1;
  {
    System node(disk);
    node.boot(scope);
    EXPECT_EQ(problem(node.upgrader.rollback(60)), "the disk did not answer");
    EXPECT_EQ(node.status(), "failed A v1: the disk did not answer");
    EXPECT_TRUE(disk.environment.attempt == nullptr);
  }
  disk.silentChoices = 1;
  {
    System node(disk);
    node.boot(scope);
    auto asking = node.upgrader.upgrade({kj::str("https://h.example/i.tar"), true, 60});
    scope.poll();
    KJ_ASSERT_NONNULL(node.archives.held)->fulfill();
    asking.wait(scope);
    scope.poll();
    EXPECT_EQ(node.status(), "failed A v1: the disk did not answer");
    EXPECT_EQ(node.etcdAsked.back(), "stays");
    EXPECT_EQ(node.reboots, 0u);
    EXPECT_TRUE(disk.environment.attempt == nullptr);
  }
  // A choice that could not be revoked then.
  System next(disk, VolumesAs::kPartitions, 1);
  disk.environment.attempt = Slot::kB;
  disk.environment.tries = 1;
  next.boot(scope);
  EXPECT_TRUE(disk.environment.attempt == nullptr);
  EXPECT_EQ(next.reboots, 0u);
}

// Catches: data that is emptied by a system which was started although its upgrade had failed.
TEST_F(UpgradeFaults, WhatHasFailedKeepsTheData) {
  chooseOther();
  KJ_ASSERT_NONNULL(disk.record).stage = UpgradeRecord::Stage::FAILED;
  System fresh(disk);
  ASSERT_EQ(fresh.running, Slot::kB);
  fresh.lacks = "x";
  fresh.boot(scope);
  EXPECT_EQ(problem(fresh.upgrader.emptyEphemeralIfAsked()), "");
  EXPECT_THAT(disk.cleared, ElementsAre());
}

// Catches: a failure in META that is removed before the record has it, or lost because it cannot be
// removed.
TEST_F(UpgradeFaults, TheFailureInMetaIsKeptUntilItIsRecorded) {
  chooseOther();
  disk.trialFailure = kj::str("its disk is gone");
  disk.environment.tries = 0;
  disk.full = disk.failureStays = true;
  {
    System old(disk);
    old.boot(scope);
    EXPECT_TRUE(disk.trialFailure != nullptr);
  }
  disk.full = false;
  System old(disk);
  old.boot(scope);
  EXPECT_THAT(old.status(), HasSubstr("was given up: its disk is gone"));
  EXPECT_THAT(KJ_ASSERT_NONNULL(disk.record).reason.cStr(), HasSubstr("its disk is gone"));
  EXPECT_EQ(old.said.back(), "upgrade: META stays");
  EXPECT_TRUE(disk.trialFailure != nullptr);
  disk.failureStays = false;
  System last(disk);
  last.boot(scope);
  EXPECT_TRUE(disk.trialFailure == nullptr);
  EXPECT_THAT(last.status(), HasSubstr("its disk is gone"));
}

// Catches: a node that goes although another member of etcd has failed during its drain, or
// although its turn has ended meanwhile; one that gives up although the member is back after a
// while.
TEST_F(UpgraderTest, EtcdIsAskedAgainAfterTheDrain) {
  for (bool returns : {false, true}) {
    SCOPED_TRACE(returns);
    ModelDisk other;
    System node(other);
    node.boot(scope);
    node.whileDraining = [&]() { node.etcdRefuses = "restarts"; };
    auto asking = node.upgrader.upgrade({kj::str("https://h.example/i.tar"), true, 60})
                      .eagerlyEvaluate(nullptr);
    scope.poll();
    KJ_ASSERT_NONNULL(node.archives.held)->fulfill();
    asking.wait(scope);
    advance(node.timer, scope, 2 * kj::MINUTES);
    EXPECT_EQ(node.reboots, 0u) << "etcd needs it";
    EXPECT_EQ(node.status(), "writing A v1: etcd has 1 voter");
    if (returns) node.etcdRefuses = "";
    advance(node.timer, scope, 2 * kj::MINUTES);
    EXPECT_EQ(node.status(), returns ? "rebooting A v1: " : "failed A v1: etcd has 1 voter");
    EXPECT_EQ(node.reboots, returns ? 1u : 0u);
    EXPECT_EQ(node.uncordoned, returns ? 0u : 1u);
    EXPECT_EQ(node.etcdAsked.back() == "stays", !returns);
    EXPECT_EQ(other.start() == Slot::kB, returns);
  }
}

// Catches: a system that gives up while another node restarts, so that etcd has lost two voters;
// one that waits for its turn longer than process 1 waits for it.
TEST_F(UpgraderTest, ASystemThatGivesUpWaitsForItsTurn) {
  rollBack(60);
  System fresh(disk);
  fresh.lacks = "no network";
  fresh.whenAsked = kj::Promise<void>(kj::NEVER_DONE);
  fresh.boot(scope);
  advance(fresh.timer, scope, 61 * kj::SECONDS);
  EXPECT_THAT(fresh.etcdAsked, testing::Contains("restarts"));
  EXPECT_EQ(fresh.reboots, 0u);
  advance(fresh.timer, scope, 45 * kj::SECONDS);
  EXPECT_EQ(fresh.reboots, 1u);
}

}  // namespace talos::machined
