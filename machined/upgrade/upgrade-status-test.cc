#include "machined/upgrade/upgrade-status.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>

namespace talos::machined {
namespace {

using Activity = UpgradeActivity;
using Stage = UpgradeRecord::Stage;

// Returns "stage image: reason".
std::string shownStatus(const UpgradeProgress& progress, const kj::Maybe<UpgradeRecord>& record) {
  capnp::MallocMessageBuilder message;
  auto spec = message.initRoot<rpc::UpgradeStatusSpec>();
  fillStatus(spec, progress, record);
  return kj::str(spec.getStage(), " ", spec.getImage(), ": ", spec.getReason()).cStr();
}

kj::Maybe<UpgradeRecord> recordIn(Stage stage, bool staged = false) {
  return UpgradeRecord{.image = kj::str("r/i:v2"),
                       .toVersion = kj::str("v2"),
                       .staged = staged,
                       .stage = stage,
                       .reason = kj::str("x")};
}

}  // namespace

// Catches: a stage that tools do not know; the work of this brain that is hidden by the record of
// an earlier upgrade.
TEST(UpgradeStatus, TheWorkIsShownBeforeTheRecord) {
  unsigned changes = 0;
  UpgradeProgress progress([&]() { ++changes; });
  EXPECT_EQ(shownStatus(progress, nullptr), "none : ");
  progress.awaited = AwaitedUpgrade{kj::str("r/i:v3"), kj::str("no route; retrying")};
  EXPECT_EQ(shownStatus(progress, recordIn(Stage::DONE)), "waiting r/i:v3: no route; retrying");
  {
    auto fetching = progress.begin(Activity::kFetching, "r/i:v4");
    progress.say(Activity::kFetching, "30 %");
    progress.say(Activity::kFetching, "30 %");
    progress.say(Activity::kWriting, "draining");
    EXPECT_EQ(shownStatus(progress, recordIn(Stage::DONE)), "fetching r/i:v4: 30 %");
    EXPECT_EQ(changes, 2u);
  }
  EXPECT_EQ(changes, 3u);
  EXPECT_TRUE(progress.isIdle());
  progress.awaited = nullptr;
  progress.enter(Activity::kWriting);
  progress.say(Activity::kWriting, "draining");
  EXPECT_EQ(shownStatus(progress, recordIn(Stage::WRITING)), "writing r/i:v2: draining");
  progress.end(Activity::kFetching);  // that of an earlier turn
  EXPECT_EQ(progress.activity(), Activity::kWriting);
  progress.end(Activity::kWriting);
  EXPECT_EQ(shownStatus(progress, recordIn(Stage::WRITING)), "writing r/i:v2: x");
}

// Catches: a stage of a record that is shown under another name; a staged system that is not shown
// as one that the reboot tries.
TEST(UpgradeStatus, EachRecordHasItsStage) {
  UpgradeProgress progress([]() {});
  struct Row {
    Stage stage;
    bool staged;
    const char *idle, *rebooting;
  } rows[] = {
      {Stage::WRITING, false, "writing r/i:v2: x", "writing r/i:v2: x"},
      {Stage::WRITTEN, false, "rebooting r/i:v2: x", "rebooting r/i:v2: x"},
      {Stage::WRITTEN, true, "staged r/i:v2: v2, tried at the next reboot; x",
       "rebooting r/i:v2: x"},
      {Stage::STARTED, false, "trying r/i:v2: x", "trying r/i:v2: x"},
      {Stage::GIVING_UP, false, "rebooting r/i:v2: x", "rebooting r/i:v2: x"},
      {Stage::DONE, false, "done r/i:v2: x", "done r/i:v2: x"},
      {Stage::FAILED, false, "failed r/i:v2: x", "failed r/i:v2: x"},
      {Stage::FAILED, true, "withdrawn r/i:v2: x", "withdrawn r/i:v2: x"},
  };
  for (auto& row : rows) {
    progress.enter(Activity::kIdle);
    EXPECT_EQ(shownStatus(progress, recordIn(row.stage, row.staged)), row.idle);
    progress.enter(Activity::kRebooting);
    EXPECT_EQ(shownStatus(progress, recordIn(row.stage, row.staged)), row.rebooting);
  }
}

}  // namespace talos::machined
