#include "machined/upgrade/upgrade-lifecycle.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace talos::machined {
namespace {

using install::Slot;
using install::SlotState;
using Finding = UpgradeFinding;
using Phase = UpgradePhase;
using Stage = UpgradeRecord::Stage;

kj::Maybe<UpgradeRecord> fromAToB(Stage stage) {
  return UpgradeRecord{.image = kj::str("x"), .from = Slot::kA, .to = Slot::kB, .stage = stage};
}

Finding found(Slot running, SlotState slots, kj::Maybe<UpgradeRecord> record,
              bool entered = false) {
  return findingOf(record, running, slots, entered);
}

constexpr Stage kAll[] = {Stage::WRITING,   Stage::WRITTEN, Stage::STARTED,
                          Stage::GIVING_UP, Stage::DONE,    Stage::FAILED};

}  // namespace

// Catches: a phase that is entered from a phase in which the disk says otherwise: a slot that is
// armed before it is written, a trial that is given up twice, an upgrade that is over and ends
// again.
TEST(UpgradePhase, OnlyTheListedPhasesFollow) {
  const std::set<std::pair<Phase, Phase>> listed = {
      {Phase::kWriting, Phase::kStaged},  {Phase::kWriting, Phase::kArmed},
      {Phase::kWriting, Phase::kFailed},  {Phase::kStaged, Phase::kWithdrawn},
      {Phase::kStaged, Phase::kDone},     {Phase::kStaged, Phase::kFailed},
      {Phase::kArmed, Phase::kDone},      {Phase::kArmed, Phase::kFailed},
      {Phase::kTrying, Phase::kGivingUp}, {Phase::kTrying, Phase::kDone},
      {Phase::kTrying, Phase::kFailed},   {Phase::kGivingUp, Phase::kDone},
      {Phase::kGivingUp, Phase::kFailed},
  };
  for (size_t i = 0; i < kUpgradePhases * kUpgradePhases; ++i) {
    auto from = static_cast<Phase>(i / kUpgradePhases), to = static_cast<Phase>(i % kUpgradePhases);
    bool may = to == Phase::kTrying || listed.contains({from, to});
    EXPECT_EQ(mayFollow(from, to), may) << i / kUpgradePhases << " " << i % kUpgradePhases;
  }
}

// Catches: a staged system that is taken for one that the next start tries, or a withdrawn one for
// a failure; a flag that an older release has left in a record that is over.
TEST(UpgradePhase, IsThatOfTheRecord) {
  struct Row {
    Stage stage;
    bool staged;
    Phase phase;
  } rows[] = {
      {Stage::WRITING, false, Phase::kWriting}, {Stage::WRITTEN, false, Phase::kArmed},
      {Stage::WRITTEN, true, Phase::kStaged},   {Stage::STARTED, false, Phase::kTrying},
      {Stage::STARTED, true, Phase::kTrying},   {Stage::GIVING_UP, false, Phase::kGivingUp},
      {Stage::DONE, true, Phase::kDone},        {Stage::FAILED, false, Phase::kFailed},
      {Stage::FAILED, true, Phase::kWithdrawn},
  };
  EXPECT_EQ(phaseOf(nullptr), Phase::kNone);
  for (auto& row : rows) {
    EXPECT_EQ(phaseOf(UpgradeRecord{.staged = row.staged, .stage = row.stage}), row.phase)
        << static_cast<int>(row.stage);
  }
}

// Catches: a trial that ends with a confirmation of the slot that another upgrade's record names,
// or empties EPHEMERAL for that upgrade; a half emptied EPHEMERAL that is forgotten.
TEST(UpgradePhase, ATrialHasTheRecordOfItsSlot) {
  auto trial = recordOnTrial(nullptr, Slot::kB, Slot::kA, "v2");
  EXPECT_EQ(kj::str(nameOf(trial.from), " ", trial.target(), " ", trial.empty), "A B v2 false");
  for (auto stage : kAll) {
    UpgradeRecord own{.toVersion = kj::str("v3"), .empty = true, .staged = true, .stage = stage};
    auto record = recordOnTrial(kj::mv(own), Slot::kB, Slot::kA, "v2");
    EXPECT_EQ(phaseOf(kj::mv(record)), Phase::kTrying);
    UpgradeRecord again{.toVersion = kj::str("v3"), .empty = true, .stage = stage};
    record = recordOnTrial(kj::mv(again), Slot::kB, Slot::kA, "v2");
    EXPECT_EQ(record.toVersion, "v3");
    EXPECT_EQ(record.empty, stage == Stage::WRITTEN || stage == Stage::STARTED);
    UpgradeRecord other{.from = Slot::kB, .to = Slot::kA, .empty = true, .emptying = true};
    other.stage = stage;
    record = recordOnTrial(kj::mv(other), Slot::kB, Slot::kA, "v2");
    EXPECT_EQ(kj::str(nameOf(record.from), " ", record.target()), "A B v2");
    EXPECT_FALSE(record.empty);
    EXPECT_TRUE(record.emptying);
  }
}

// The boot loader's state counts, not the record, which may be lost, or belong to another upgrade.
// Catches: a new system that is taken for the confirmed one, and stays without being healthy; an
// old system that does not notice that it runs again.
TEST(UpgradeFinding, TheBootLoaderKnowsWhatIsTried) {
  for (auto stage : kAll) {
    SlotState tried{Slot::kA, Slot::kB, 0}, untried{Slot::kA, Slot::kB, 1};
    EXPECT_EQ(found(Slot::kB, tried, fromAToB(stage)), Finding::kOnTrial);
    EXPECT_EQ(found(Slot::kA, tried, fromAToB(stage)), Finding::kFellBack);
    EXPECT_EQ(found(Slot::kA, untried, fromAToB(stage)), Finding::kWaiting);
  }
  EXPECT_EQ(found(Slot::kB, {Slot::kA, Slot::kB, 0}, nullptr), Finding::kOnTrial);
  EXPECT_EQ(found(Slot::kA, {Slot::kA, Slot::kB, 0}, nullptr), Finding::kFellBack);
}

// Catches: an interrupted upgrade that counts as done, or is under way for ever; an upgrade that
// was confirmed a moment before the power cut and counts as failed.
TEST(UpgradeFinding, WithoutATryTheRecordIsOfThePast) {
  SlotState onA{Slot::kA, nullptr, 0}, onB{Slot::kB, nullptr, 0};
  EXPECT_EQ(found(Slot::kA, onA, fromAToB(Stage::WRITING)), Finding::kCutOff);
  EXPECT_EQ(found(Slot::kA, onA, fromAToB(Stage::WRITTEN)), Finding::kCutOff);
  EXPECT_EQ(found(Slot::kB, onB, fromAToB(Stage::STARTED)), Finding::kConfirmed);
  // Its confirmation was written, and the answer lost.
  EXPECT_EQ(found(Slot::kB, onB, fromAToB(Stage::GIVING_UP)), Finding::kConfirmed);
  for (auto over : {Stage::DONE, Stage::FAILED}) {
    EXPECT_EQ(found(Slot::kA, onA, fromAToB(over)), Finding::kNothing);
    EXPECT_EQ(found(Slot::kB, onB, fromAToB(over)), Finding::kNothing);
  }
  EXPECT_EQ(found(Slot::kA, onA, nullptr), Finding::kNothing);
  // Slot B could not be loaded any more, and the boot loader continued with A by itself.
  EXPECT_EQ(found(Slot::kA, onB, fromAToB(Stage::DONE)), Finding::kNothing);
}

// Catches: a system that took over without a reboot, and stays without being healthy, because the
// boot loader does not know of its trial; an old system that does not notice after a power cut that
// the new one had taken over; a trial that begins again after the confirmation.
TEST(UpgradeFinding, ATrialWithoutARebootIsKnownByTheTakeover) {
  SlotState onA{Slot::kA, nullptr, 0}, onB{Slot::kB, nullptr, 0};
  for (auto stage : kAll) {
    EXPECT_EQ(found(Slot::kB, onA, fromAToB(stage), true), Finding::kOnTrial);
    auto live = fromAToB(stage);
    KJ_ASSERT_NONNULL(live).live = true;
    bool isOver = stage == Stage::DONE || stage == Stage::FAILED;
    auto fellBack = stage == Stage::WRITING ? Finding::kCutOff : Finding::kFellBack;
    for (bool returned : {false, true}) {
      auto copy = decodeRecord(encodeRecord(KJ_ASSERT_NONNULL(live)));
      EXPECT_EQ(found(Slot::kA, onA, kj::mv(copy), returned),
                isOver ? Finding::kNothing : fellBack);
    }
  }
  EXPECT_EQ(found(Slot::kB, onA, nullptr, true), Finding::kOnTrial) << "the record is lost";
  EXPECT_EQ(found(Slot::kB, onB, fromAToB(Stage::STARTED), true), Finding::kConfirmed);
  EXPECT_EQ(found(Slot::kB, onB, fromAToB(Stage::DONE), true), Finding::kNothing);
  UpgradeRecord record{.to = Slot::kB, .toVersion = kj::str("v2"), .stage = Stage::WRITTEN};
  record.live = true;
  EXPECT_EQ(fallbackReason(record, nullptr),
            "the system in slot B (v2) did not take over: machined or the machine ended before its "
            "machined ran");
}

// Catches: a node that has fallen back and does not report the reason that the new system gave.
TEST(UpgradeFinding, TheReasonIsTheNewSystems) {
  UpgradeRecord record{.to = Slot::kB, .toVersion = kj::str("v2"), .stage = Stage::GIVING_UP};
  record.reason = kj::str("no API");
  EXPECT_EQ(fallbackReason(record, "x"_kj), "the system in slot B (v2) was given up: no API");
  record.stage = Stage::STARTED;
  EXPECT_EQ(fallbackReason(record, "x"_kj),
            "the system in slot B (v2) was started and ended before it was healthy; its last "
            "problem: no API");
  record.stage = Stage::WRITTEN;
  EXPECT_NE(std::string(fallbackReason(record, nullptr).cStr()).find("did not come up"),
            std::string::npos);
  EXPECT_EQ(fallbackReason(record, "its boot failed"_kj),
            "the system in slot B (v2) was given up: its boot failed");
}

// Catches: a record that another brain reads differently; a truncated or damaged record that ends a
// boot.
TEST(UpgradeFinding, TheRecordIsKept) {
  UpgradeRecord record{.image = kj::str("r/i:v2"),
                       .digest = kj::str("sha256:1"),
                       .from = Slot::kB,
                       .to = Slot::kA,
                       .fromVersion = kj::str("v1"),
                       .toVersion = kj::str("v2"),
                       .healthTimeoutS = 90,
                       .empty = true,
                       .stage = Stage::GIVING_UP,
                       .reason = kj::str("why"),
                       .began = kj::UNIX_EPOCH + 5 * kj::SECONDS};
  auto bytes = encodeRecord(record);
  auto again = KJ_ASSERT_NONNULL(decodeRecord(bytes));
  EXPECT_EQ(
      kj::str(again.image, again.digest, nameOf(again.from), nameOf(again.to), again.fromVersion,
              again.toVersion, again.healthTimeoutS, again.empty, static_cast<int>(again.stage),
              again.reason, (again.began - kj::UNIX_EPOCH) / kj::SECONDS),
      kj::str("r/i:v2sha256:1BAv1v290true3why5"));
  record.reason = kj::str(kj::repeat('x', 100'000));
  EXPECT_LT(encodeRecord(record).size(), 10'000u) << "a boot reads it";
  for (size_t size = 0; size < bytes.size(); size += 8) {
    EXPECT_TRUE(decodeRecord(bytes.slice(0, size)) == nullptr) << size;
  }
  EXPECT_TRUE(decodeRecord("0123456789abcdef0123456789abcdef"_kj.asArray()) == nullptr);
}

}  // namespace talos::machined
