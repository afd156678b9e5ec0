#include "machined/upgrade/record-writer.h"

#include <kj/debug.h>

#include "common/base/within.h"

namespace talos::machined {
namespace {

using Phase = UpgradePhase;
using Stage = UpgradeRecord::Stage;
using install::nameOf;

// Limit of the wait for a disk that does not answer.
constexpr auto kSaveTimeout = 10 * kj::SECONDS;

}  // namespace

kj::Promise<void> RecordWriter::load() {
  newest = co_await deps.storage.load();
}

UpgradeRecord RecordWriter::fresh(kj::String image) const {
  auto running = KJ_ASSERT_NONNULL(deps.running);
  return UpgradeRecord{.image = kj::mv(image),
                       .from = running,
                       .to = install::otherThan(running),
                       .fromVersion = kj::str(deps.version),
                       .began = deps.clock.now()};
}

void RecordWriter::begin(UpgradeRecord next) {
  auto first = phaseOf(next.stage, next.staged);
  KJ_ASSERT(first == Phase::kWriting || first == Phase::kArmed);
  KJ_ASSERT(next.from != next.to);
  KJ_IF_MAYBE (r, newest) next.emptying = r->emptying;
  newest = kj::mv(next);
  deps.changed();
}

void RecordWriter::trying(install::Slot confirmed, bool entered) {
  newest = recordOnTrial(kj::mv(newest), KJ_ASSERT_NONNULL(deps.running), confirmed, deps.version,
                         entered);
  deps.changed();
}

kj::Promise<void> RecordWriter::saveDuties(kj::Date upgrade) {
  auto duties = co_await deps.node.duties();
  for (auto& duty : duties) {
    if (duty.problem != nullptr) {
      deps.node.announce(kj::str("upgrade: the new system need not mend ", describe(duty)));
    }
  }
  auto before = recordOf(duties, upgrade);
  co_await deps.storage.saveDuties(before);
}

void RecordWriter::written(kj::String version) {
  KJ_ASSERT(phase() == Phase::kWriting);
  KJ_ASSERT_NONNULL(newest).toVersion = kj::mv(version);
}

// Saves one record at a time, and each save writes the state of its turn: of two at once, the older
// one might be written last.
kj::Promise<void> RecordWriter::save() {
  saving = saving.addBranch()
               .catch_([](kj::Exception&&) {})  // its caller reports it
               .then([this]() -> kj::Promise<void> {
                 KJ_IF_MAYBE (r, newest) return deps.storage.save(*r);
                 return kj::READY_NOW;
               })
               .fork();
  return within(deps.timer, kSaveTimeout, saving.addBranch(),
                kj::str("STATE: writing the record of the upgrade timed out after ",
                        kSaveTimeout / kj::SECONDS, " s"));
}

void RecordWriter::enter(Stage next, bool staged, kj::String reason) {
  auto from = phase(), to = phaseOf(next, staged);
  KJ_ASSERT(mayFollow(from, to), static_cast<int>(from), static_cast<int>(to));
  auto& r = KJ_ASSERT_NONNULL(newest);
  r.stage = next;
  r.staged = staged;
  r.reason = kj::mv(reason);
  deps.changed();
}

kj::Promise<void> RecordWriter::staged(bool forced) {
  KJ_ASSERT_NONNULL(newest).forced = forced;
  enter(Stage::WRITTEN, true, kj::String());
  return save();
}

kj::Promise<void> RecordWriter::armed() {
  enter(Stage::WRITTEN, false, kj::String());
  return save();
}

kj::Promise<void> RecordWriter::givingUp(kj::String reason) {
  enter(Stage::GIVING_UP, false, kj::mv(reason));
  return save();
}

kj::Promise<void> RecordWriter::done(kj::String reason) {
  enter(Stage::DONE, false, kj::mv(reason));
  return save();
}

kj::Promise<void> RecordWriter::failed(kj::String reason) {
  enter(Stage::FAILED, false, kj::mv(reason));
  auto& r = current();
  deps.node.announce(kj::str(r.image.size() > 0 ? "upgrade" : "rollback", " failed: ", r.reason,
                             "; running slot ", nameOf(r.from), " (", deps.version, ")"));
  return save();
}

kj::Promise<void> RecordWriter::explained(kj::String reason) {
  auto& r = KJ_ASSERT_NONNULL(newest);
  if (r.reason == reason) return kj::READY_NOW;
  r.reason = kj::mv(reason);
  deps.changed();
  return save();
}

// Changes the newest record, because a rollback, which does not wait for the end of the boot, may
// have replaced the record that began the wipe.
kj::Promise<void> RecordWriter::wiping(bool begins) {
  auto& r = KJ_ASSERT_NONNULL(newest);
  r.emptying = begins;
  if (!begins) r.empty = false;
  return save();
}

kj::Promise<void> RecordWriter::retried() {
  if (current().emptying) {
    enter(Stage::FAILED, false, kj::str("it was interrupted; it is tried again"));
    return save();
  }
  newest = nullptr;
  deps.changed();
  return kj::READY_NOW;
}

kj::Promise<void> RecordWriter::withdrawn() {
  KJ_ASSERT(mayFollow(phase(), Phase::kWithdrawn));
  auto& r = KJ_ASSERT_NONNULL(newest);
  auto lastReason = kj::mv(r.reason);
  r.stage = Stage::FAILED;
  r.reason =
      kj::str(r.toVersion, " was staged in slot ", nameOf(r.to), ", and withdrawn by a rollback");
  kj::Maybe<kj::Exception> problem;
  co_await save().catch_([&](kj::Exception&& e) { problem = kj::mv(e); });
  KJ_IF_MAYBE (e, problem) {
    r.stage = Stage::WRITTEN;
    r.reason = kj::mv(lastReason);
    deps.changed();
    kj::throwFatalException(kj::mv(*e));
  }
  deps.changed();
}

}  // namespace talos::machined
