// Upgrades that are staged, and trials that an operator confirms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/testing/virtual-time.h"
#include "machined/upgrade/test-upgrader.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kStagedB = "staged A v1: v3, tried at the next reboot";

struct StagedUpgrade : UpgraderTest {
  ~StagedUpgrade() noexcept override {}

  void upgrade(System& node, bool stage, bool preserve = true) {
    UpgradeRequest request{kj::str("https://h.example/i.tar"), preserve, 60};
    request.stage = stage;
    auto asking = node.upgrader.upgrade(kj::mv(request)).eagerlyEvaluate(nullptr);
    scope.poll();
    KJ_ASSERT_NONNULL(node.archives.held)->fulfill();
    asking.wait(scope);
    scope.poll();
  }
  void stage(bool preserve = true) {
    System old(disk);
    old.boot(scope);
    upgrade(old, true, preserve);
    ASSERT_EQ(old.status(), kStagedB);
  }
};

}  // namespace

// Catches: a node that reboots immediately, leaves etcd, drains or takes a turn to restart although
// it does not restart; a boot loader that tries the new system after a power cut; a staging that is
// lost by a crash of machined or a power cut.
TEST_F(StagedUpgrade, IsTriedAtTheNextRebootAndNotBefore) {
  {
    System old(disk);
    old.doing = {{"voter of etcd", ""}, {"clock", ""}};
    old.boot(scope);
    upgrade(old, true);
    EXPECT_EQ(old.status(), kStagedB);
    EXPECT_EQ(old.reboots, 0u);
    EXPECT_THAT(old.etcdAsked, IsEmpty());
    EXPECT_EQ(disk.written, "B vmlinuz 512 a=1");
    EXPECT_TRUE(disk.environment.attempt == nullptr);
  }
  {
    System next(disk, VolumesAs::kPartitions, 1);
    next.boot(scope);
    EXPECT_EQ(next.status(), kStagedB);
    EXPECT_EQ(next.reboots, 0u);
  }
  System old(disk);
  ASSERT_EQ(old.running, Slot::kA) << "a power cut is no reboot";
  old.doing = {{"voter of etcd", ""}, {"clock", "no server answers"}};
  old.boot(scope);
  EXPECT_EQ(old.status(), kStagedB);
  old.upgrader.tryStaged().wait(scope);
  EXPECT_EQ(old.status(), "rebooting A v1: ");
  EXPECT_THAT(old.etcdAsked, IsEmpty());

  System fresh(disk);
  ASSERT_EQ(fresh.running, Slot::kB);
  fresh.doing = {{"voter of etcd", "it is a learner"}, {"clock", "still none"}};
  fresh.boot(scope);
  advance(fresh.timer, scope, 2 * kj::SECONDS);
  EXPECT_THAT(fresh.status(),
              testing::HasSubstr("trying B v3: voter of etcd: it is a learner; gives up in "))
      << "the duties are those of before the reboot";
  fresh.doing["voter of etcd"] = "";
  advance(fresh.timer, scope, 8 * kj::SECONDS);
  EXPECT_EQ(fresh.status(), "done B v3: ");
  fresh.upgrader.tryStaged().wait(scope);
  EXPECT_EQ(disk.start(), Slot::kB) << "there is nothing staged any more";
}

// Catches: a staged system that gave up, or never came up, and is taken for staged again, so that
// every reboot tries it.
TEST_F(StagedUpgrade, OneThatFailsItsTrialIsOver) {
  for (bool comesUp : {false, true}) {
    disk.environment = {};
    disk.record = nullptr;
    stage();
    {
      System old(disk);
      old.boot(scope);
      old.upgrader.tryStaged().wait(scope);
    }
    {
      System fresh(disk);
      ASSERT_EQ(fresh.running, Slot::kB);
      fresh.lacks = "no network";
      if (comesUp) fresh.boot(scope);
      advance(fresh.timer, scope, 62 * kj::SECONDS);
    }
    System old(disk);
    ASSERT_EQ(old.running, Slot::kA);
    old.boot(scope);
    EXPECT_THAT(old.status(), HasSubstr("failed A v1: the system in slot B (v3) "));
    old.upgrader.tryStaged().wait(scope);
    EXPECT_EQ(disk.start(), Slot::kA);
  }
}

// Catches: a node without --preserve that leaves etcd when it is staged, or whose data is emptied
// by the old system, or that reboots into the new one although etcd did not release it, or has left
// and is stuck; a staging that is lost by a power cut between leaving etcd and the boot loader's
// choice.
TEST_F(StagedUpgrade, WithoutPreserveItLeavesEtcdAtTheReboot) {
  stage(false);
  {
    System old(disk);
    old.boot(scope);
    old.etcdRefuses = "leaves";
    old.upgrader.tryStaged().wait(scope);
    EXPECT_THAT(old.said.back(), HasSubstr("stays staged; the last reboot did not try it: etcd "
                                           "has 1 voter"));
  }
  {
    System old(disk);
    ASSERT_EQ(old.running, Slot::kA);
    old.boot(scope);
    old.upgrader.emptyEphemeralIfAsked().wait(scope);
    EXPECT_THAT(disk.cleared, IsEmpty());
    EXPECT_EQ(old.status(), kStagedB + std::string("; the last reboot did not try it: etcd has 1 "
                                                   "voter"));
    disk.refuses = true;  // the node has left etcd, and the power is cut
    old.upgrader.tryStaged().wait(scope);
    disk.refuses = false;
  }
  System old(disk);
  ASSERT_EQ(old.running, Slot::kA);
  old.boot(scope);
  EXPECT_THAT(old.status(), HasSubstr("the disk does not take it"));
  old.upgrader.tryStaged().wait(scope);
  EXPECT_THAT(old.etcdAsked, ElementsAre("leaves"));
  System fresh(disk);
  ASSERT_EQ(fresh.running, Slot::kB);
  fresh.boot(scope);
  fresh.upgrader.emptyEphemeralIfAsked().wait(scope);
  EXPECT_EQ(disk.cleared.size(), 1u);
}

// Catches: a choice that the disk has written and reported as failed: a much later reboot would try
// the system without a message.
TEST_F(StagedUpgrade, AChoiceThatFailedIsRevokedAtTheReboot) {
  stage();
  System old(disk);
  old.boot(scope);
  disk.silentChoices = 1;
  old.upgrader.tryStaged().wait(scope);
  EXPECT_TRUE(disk.environment.attempt == nullptr);
  System next(disk);
  ASSERT_EQ(next.running, Slot::kA);
  next.boot(scope);
  EXPECT_THAT(next.status(), HasSubstr("staged A v1: v3, tried at the next reboot; the last "));
}

// Catches: a second upgrade that is refused because one is staged, or after which the next reboot
// tries a half written slot; an upgrade that fails before it writes and ends the staged one.
TEST_F(StagedUpgrade, AnotherUpgradeReplacesIt) {
  stage();
  System old(disk);
  old.boot(scope);
  old.archives.problem = "damaged";
  auto refused = old.upgrader.upgrade({kj::str("https://h.example/bad.tar"), true, 60});
  scope.poll();
  KJ_ASSERT_NONNULL(old.archives.held)->fulfill();
  EXPECT_EQ(problem(kj::mv(refused)), "damaged");
  EXPECT_EQ(old.status(), kStagedB);
  old.archives.problem = "";
  disk.imageVersion = "v4";
  upgrade(old, true);
  EXPECT_EQ(old.status(), "staged A v1: v4, tried at the next reboot");

  disk.hangs = true;  // in the middle of the slot
  old.pulls.registry["r.example/i:v5"] = "sha256:7";
  auto writing = old.upgrader.upgrade({kj::str("r.example/i:v5"), true}).eagerlyEvaluate(nullptr);
  scope.poll();
  EXPECT_EQ(old.status(), "writing A v1: ");
  old.upgrader.tryStaged().wait(scope);
  EXPECT_EQ(disk.start(), Slot::kA);
  System next(disk);
  next.boot(scope);
  EXPECT_THAT(next.status(), HasSubstr("failed A v1: it was interrupted"));

  disk.hangs = false;
  upgrade(next, false);
  EXPECT_EQ(next.status(), "rebooting A v1: ");
  EXPECT_EQ(next.reboots, 1u);
}

// Catches: a rollback that reboots into the staged system, which has never run, or that leaves it
// staged; a withdrawn system that a power cut brings back, or that a repeated rollback tries after
// all.
TEST_F(StagedUpgrade, ARollbackWithdrawsIt) {
  stage();
  {
    System old(disk);
    old.boot(scope);
    EXPECT_EQ(KJ_ASSERT_NONNULL(old.upgrader.rollback(0).wait(scope)), "B v3");
    scope.poll();
    EXPECT_EQ(old.reboots, 0u);
    EXPECT_EQ(old.status(), "withdrawn A v1: v3 was staged in slot B, and withdrawn by a rollback");
    old.upgrader.tryStaged().wait(scope);
  }
  System old(disk);
  ASSERT_EQ(old.running, Slot::kA);
  old.boot(scope);
  EXPECT_THAT(old.status(), HasSubstr("withdrawn A v1: "));
  EXPECT_EQ(problem(old.upgrader.rollback(0)),
            "there is no system to roll back to: slot B v3 was staged and withdrawn, and has never "
            "run; upgrade again to run it");
  EXPECT_EQ(disk.start(), Slot::kA);
  EXPECT_EQ(old.reboots, 0u);
  upgrade(old, false);
  EXPECT_EQ(old.reboots, 1u);
}

// Catches: a withdrawal that failed and has effect until the next start, which finds the system
// staged.
TEST_F(StagedUpgrade, AWithdrawalThatStateDoesNotTakeIsNone) {
  stage();
  System old(disk);
  old.boot(scope);
  disk.slow = true;
  std::string refusal;
  auto refused = old.upgrader.rollback(0)
                     .ignoreResult()
                     .catch_([&](kj::Exception&& e) { refusal = messageOf(e).cStr(); })
                     .eagerlyEvaluate(nullptr);
  advance(old.timer, scope, 11 * kj::SECONDS);
  EXPECT_THAT(refusal, HasSubstr("writing the record of the upgrade timed out"));
  EXPECT_EQ(old.status(), kStagedB);
  disk.slow = false;
  for (auto& save : disk.saves) save->fulfill();
  EXPECT_EQ(KJ_ASSERT_NONNULL(old.upgrader.rollback(0).wait(scope)), "B v3");
  EXPECT_THAT(old.status(), HasSubstr("withdrawn A v1: "));
}

// Catches: a node that waits for other nodes and whose trial cannot be confirmed; a confirmation
// that does not report what the system lacked; a confirmation that succeeds although the disk did
// not write it.
TEST_F(StagedUpgrade, AnOperatorConfirmsATrial) {
  rollBack();
  System fresh(disk);
  EXPECT_THAT(problem(fresh.upgrader.confirmTrial()), HasSubstr("has not mounted STATE yet"));
  fresh.lacks = "service x is not up";
  fresh.boot(scope);
  advance(fresh.timer, scope, 5 * kj::SECONDS);
  disk.refuses = true;
  std::string refusal;
  auto refused = fresh.upgrader.confirmTrial()
                     .ignoreResult()
                     .catch_([&](kj::Exception&& e) { refusal = messageOf(e).cStr(); })
                     .eagerlyEvaluate(nullptr);
  advance(fresh.timer, scope, 2 * kj::SECONDS);
  EXPECT_EQ(refusal, "cannot confirm it: the disk does not take it");
  EXPECT_FALSE(fresh.settled());
  disk.refuses = false;
  std::string lacked;
  auto confirmed = fresh.upgrader.confirmTrial()
                       .then([&](kj::String text) { lacked = text.cStr(); })
                       .eagerlyEvaluate(nullptr);
  advance(fresh.timer, scope, 2 * kj::SECONDS);
  EXPECT_EQ(lacked, "service x is not up");
  EXPECT_EQ(fresh.status(), "done B v2: confirmed by an operator, although: service x is not up");
  EXPECT_TRUE(fresh.settled());
  EXPECT_EQ(disk.start(), Slot::kB);
  advance(fresh.timer, scope, 120 * kj::SECONDS);
  EXPECT_EQ(fresh.reboots, 0u);
  EXPECT_THAT(problem(fresh.upgrader.confirmTrial()), HasSubstr("no trial is running: "));
}

// Catches: a caller that is never answered because the trial ends otherwise.
TEST_F(StagedUpgrade, AConfirmationThatComesTooLate) {
  rollBack();
  System fresh(disk);
  fresh.boot(scope);
  fresh.lacks = "no config";
  fresh.hopeless = true;
  std::string refusal;
  auto refused = fresh.upgrader.confirmTrial()
                     .ignoreResult()
                     .catch_([&](kj::Exception&& e) { refusal = messageOf(e).cStr(); })
                     .eagerlyEvaluate(nullptr);
  advance(fresh.timer, scope, 2 * kj::SECONDS);
  EXPECT_EQ(refusal, "no trial is running: it is given up: no config");
  EXPECT_THAT(problem(fresh.upgrader.confirmTrial()), HasSubstr("it is given up: no config"));
  EXPECT_EQ(disk.start(), Slot::kA);
}

}  // namespace talos::machined
