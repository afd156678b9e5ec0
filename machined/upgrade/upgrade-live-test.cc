// Upgrades without a reboot: the plan, the takeover, the trial, and the way back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machined/upgrade/test-upgrader.h"

namespace talos::machined {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

struct UpgradeLive : UpgraderTest {
  ~UpgradeLive() noexcept override {}

  UpgradeRequest request() const {
    UpgradeRequest request{kj::str("https://h.example/i.tar"), true, 60};
    request.live = true;
    return request;
  }
  // Fetches and writes the image, until the system has taken over or stays.
  std::string upgrade(System& node, UpgradeRequest wanted) {
    node.boot(scope);
    auto asked = node.upgrader.upgrade(kj::mv(wanted)).eagerlyEvaluate(nullptr);
    scope.poll();
    KJ_IF_MAYBE (held, node.archives.held) (*held)->fulfill();
    auto text = problem(kj::mv(asked));
    scope.poll();
    return text;
  }
  // Lets the time pass until the system is confirmed, gives up, or another has taken over.
  void run(System& node) {
    for (unsigned turn = 0; turn < 500 && node.reboots == 0 && !node.root.hasEntered; ++turn) {
      scope.poll();
      if (!node.upgrader.isUnderWay()) return;
      KJ_IF_MAYBE (next, node.timer.nextEvent()) node.timer.advanceTo(*next);
    }
  }
};

}  // namespace

// Catches: an upgrade without a reboot that reboots, drains, or makes the boot loader try the slot
// during the trial; one that is not confirmed at its end; a turn to restart that is kept.
TEST_F(UpgradeLive, ANewSystemTakesOverAndIsConfirmed) {
  {
    System old(disk);
    EXPECT_EQ(upgrade(old, request()), "");
    EXPECT_TRUE(old.root.hasEntered);
    EXPECT_EQ(old.reboots, 0u);
    EXPECT_THAT(old.etcdAsked, Not(Contains("drains")));
    EXPECT_THAT(old.etcdAsked, Contains("restarts"));
  }
  EXPECT_TRUE(disk.environment.confirmed == Slot::kA && disk.environment.attempt == nullptr)
      << "a power cut during the trial starts the old system";
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk.enteredTrialS), 60u);
  System fresh(disk, VolumesAs::kPartitions, 1);
  auto paf = kj::newPromiseAndFulfiller<void>();
  fresh.root.old = "apid";
  fresh.root.replaced = kj::mv(paf.promise);
  fresh.boot(scope);
  EXPECT_EQ(fresh.status().substr(0, 9), "trying B ");
  for (unsigned turn = 0; turn < 10; ++turn) {
    scope.poll();
    KJ_IF_MAYBE (next, fresh.timer.nextEvent()) fresh.timer.advanceTo(*next);
  }
  EXPECT_THAT(fresh.status(), HasSubstr("services of the old system still run: apid"));
  paf.fulfiller->fulfill();
  run(fresh);
  EXPECT_EQ(fresh.status(), "done B v3: ");
  EXPECT_TRUE(disk.environment.confirmed == Slot::kB);
  EXPECT_TRUE(fresh.settled());
  EXPECT_THAT(fresh.etcdAsked, Contains("stays"));
  EXPECT_EQ(fresh.reboots, 0u);
}

// Catches: a sick system that stays, or that reboots although the old one can take over; an old
// system that does not say why it runs again.
TEST_F(UpgradeLive, ASickSystemLetsTheOldOneTakeOver) {
  {
    System old(disk);
    EXPECT_EQ(upgrade(old, request()), "");
  }
  {
    System sick(disk, VolumesAs::kPartitions, 1);
    sick.lacks = "no network";
    sick.boot(scope);
    run(sick);
    EXPECT_TRUE(sick.root.hasEntered);
    EXPECT_EQ(sick.reboots, 0u);
    EXPECT_EQ(sick.status().substr(0, 12), "switching B ");
  }
  EXPECT_TRUE(disk.enteredTrialS == nullptr) << "the old system is not on trial";
  System old(disk, VolumesAs::kPartitions, 2);
  old.boot(scope);
  scope.poll();
  EXPECT_THAT(old.status(), HasSubstr("failed A v1: the system in slot B (v3) was given up: it was "
                                      "not healthy within 60 s: no network"));
  EXPECT_EQ(old.root.replacements, 1u) << "services of the new system still run";
  EXPECT_TRUE(old.settled());
  EXPECT_THAT(old.etcdAsked, Contains("stays"));
}

// Catches: a sick system that stays because the old one cannot take over.
TEST_F(UpgradeLive, ASickSystemRebootsIfTheOldOneCannotTakeOver) {
  for (bool prepares : {false, true}) {
    ModelDisk own;
    {
      System old(own);
      EXPECT_EQ(upgrade(old, request()), "");
    }
    System sick(own, VolumesAs::kPartitions, 1);
    sick.lacks = "no network";
    (prepares ? sick.root.refuses : sick.root.differs) = "no memory";
    sick.boot(scope);
    run(sick);
    EXPECT_EQ(sick.reboots, 1u);
    EXPECT_THAT(sick.said, Contains(HasSubstr("no memory")));
    EXPECT_TRUE(own.environment.confirmed == Slot::kA);
  }
}

// Catches: a system with another kernel that takes over, or that is tried by the next start; a
// failure that keeps the turn to restart, or the prepared root.
TEST_F(UpgradeLive, ASystemThatNeedsARebootIsRefused) {
  for (bool prepares : {false, true}) {
    System old(disk);
    (prepares ? old.root.refuses : old.root.differs) = "these differ: the kernel";
    EXPECT_EQ(upgrade(old, request()), "") << "the rest follows without the caller";
    EXPECT_FALSE(old.root.hasEntered);
    EXPECT_TRUE(old.root.prepared == nullptr);
    EXPECT_EQ(old.reboots, 0u);
    EXPECT_EQ(old.status(), "failed A v1: these differ: the kernel");
    EXPECT_TRUE(disk.environment.confirmed == Slot::kA && disk.environment.attempt == nullptr);
    EXPECT_THAT(old.etcdAsked, Contains("stays"));
  }
}

// Catches: a slot that is overwritten for an image that states another process 1.
TEST_F(UpgradeLive, AnImageThatStatesOtherPartsIsRefusedBefore) {
  System node(disk);
  disk.imageConfigKeys = "machine\n//process-1=ab\n";
  auto writes = disk.writes;
  EXPECT_EQ(upgrade(node, request()), "another process 1");
  EXPECT_EQ(disk.versions[1], "v2");
  EXPECT_TRUE(disk.record == nullptr);
  EXPECT_LE(disk.writes, writes + 1) << "the version floor, at most";
}

// Catches: flags that contradict --live and are ignored.
TEST_F(UpgradeLive, FlagsThatContradictAreRefused) {
  System node(disk);
  node.boot(scope);
  auto wanted = request();
  wanted.preserve = false;
  EXPECT_THAT(problem(node.upgrader.upgrade(kj::mv(wanted))), HasSubstr("use --preserve"));
  wanted = request();
  wanted.stage = true;
  EXPECT_THAT(problem(node.upgrader.upgrade(kj::mv(wanted))), HasSubstr("cannot be staged"));
  EXPECT_EQ(node.status().substr(0, 4), "none");
}

// Catches: a rollback without a reboot that reboots, or that is not on trial; one that is refused
// and has changed the record, or keeps the prepared root.
TEST_F(UpgradeLive, ARollbackTakesOver) {
  {
    System old(disk);
    old.boot(scope);
    old.root.differs = "these differ: the kernel";
    EXPECT_THAT(problem(old.upgrader.rollback(60, false, true)), HasSubstr("the kernel"));
    EXPECT_TRUE(disk.record == nullptr);
    old.root.differs = "";
    old.etcdRefuses = "restarts";
    EXPECT_THAT(problem(old.upgrader.rollback(60, false, true)), HasSubstr("etcd has 1 voter"));
    EXPECT_TRUE(disk.record == nullptr && old.root.prepared == nullptr);
    old.etcdRefuses = "";
    EXPECT_EQ(problem(old.upgrader.rollback(60, false, true)), "");
    scope.poll();
    EXPECT_TRUE(old.root.hasEntered);
    EXPECT_EQ(old.reboots, 0u);
  }
  System previous(disk, VolumesAs::kPartitions, 1);
  previous.boot(scope);
  run(previous);
  EXPECT_EQ(previous.status(), "done B v2: ");
}

}  // namespace talos::machined
