#include "machined/upgrade/record-writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machined/upgrade/test-upgrader.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

struct RecordWriterTest : UpgraderTest {
  ~RecordWriterTest() noexcept override {}
  System node{disk};
  unsigned shown = 0;
  RecordWriter records{{.timer = node.timer,
                        .clock = kj::systemPreciseCalendarClock(),
                        .storage = node,
                        .node = node,
                        .running = Slot::kA,
                        .version = "v1",
                        .changed = [this]() { ++shown; }}};

  UpgradePhase phaseOnDisk() { return phaseOf(copyOfRecord(disk.record)); }
};

}  // namespace

// Catches: a record that says that the other slot is tried, or was healthy, before its system is
// written; a phase that is on the disk although it was refused.
TEST_F(RecordWriterTest, APhaseThatMayNotFollowIsRefused) {
  records.begin(records.fresh(kj::str("r/i:v2")));
  records.save().wait(scope);
  EXPECT_EQ(phaseOnDisk(), UpgradePhase::kWriting);
  EXPECT_ANY_THROW((void)records.done(kj::String()));
  EXPECT_EQ(phaseOnDisk(), UpgradePhase::kWriting);
  RecordWriter other{{.timer = node.timer,
                      .clock = kj::systemPreciseCalendarClock(),
                      .storage = node,
                      .node = node,
                      .running = Slot::kA,
                      .version = "v1",
                      .changed = []() {}}};
  other.load().wait(scope);
  EXPECT_ANY_THROW((void)other.givingUp(kj::str("x")));
  EXPECT_EQ(phaseOnDisk(), UpgradePhase::kWriting);
}

// Catches: a change that is shown only when the disk has it, so that a disk which does not answer
// hides it; a record that another upgrade has replaced, and that is written last.
TEST_F(RecordWriterTest, ChangesAreShownAtOnceAndSavedInTheirOrder) {
  disk.slow = true;
  records.begin(records.fresh(kj::str("r/i:v2")));
  auto first = records.save().eagerlyEvaluate(nullptr);
  records.written(kj::str("v2"));
  auto second = records.armed().eagerlyEvaluate(nullptr);
  scope.poll();
  EXPECT_EQ(records.phase(), UpgradePhase::kArmed);
  EXPECT_EQ(shown, 2u);
  ASSERT_EQ(disk.saves.size(), 1u) << "the second one waits";
  disk.saves[0]->fulfill();
  first.wait(scope);
  scope.poll();
  ASSERT_EQ(disk.saves.size(), 2u);
  disk.saves[1]->fulfill();
  second.wait(scope);
  EXPECT_EQ(phaseOnDisk(), UpgradePhase::kArmed);
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).target(), "B v2");
}

// Catches: a half emptied EPHEMERAL that is forgotten with the record that says so.
TEST_F(RecordWriterTest, AWipeOutlivesItsUpgrade) {
  records.begin(records.fresh(kj::str("r/i:v2")));
  records.wiping(true).wait(scope);
  records.retried().wait(scope);
  EXPECT_EQ(records.phase(), UpgradePhase::kFailed);
  records.begin(records.fresh(kj::str("r/i:v3")));
  EXPECT_TRUE(records.current().emptying);
  records.wiping(false).wait(scope);
  records.retried().wait(scope);
  EXPECT_EQ(records.phase(), UpgradePhase::kNone);
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).image, "r/i:v3") << "it is dropped in memory only";
}

// Catches: a failure that is not announced, or whose record is one of a withdrawn system.
TEST_F(RecordWriterTest, AFailureIsAnnounced) {
  records.begin(records.fresh(kj::str("r/i:v2")));
  records.staged(false).wait(scope);
  records.failed(kj::str("x")).wait(scope);
  EXPECT_EQ(node.said.back(), "upgrade failed: x; running slot A (v1)");
  EXPECT_EQ(phaseOnDisk(), UpgradePhase::kFailed);
  records.begin(records.fresh(kj::String()));
  disk.full = true;
  EXPECT_THAT(problem(records.failed(kj::str("y"))), HasSubstr("STATE is full"));
  EXPECT_EQ(node.said.back(), "rollback failed: y; running slot A (v1)");
}

}  // namespace talos::machined
