// The Upgrader at the start of a system: its findings, the emptying of EPHEMERAL, the trial.
#include <kj/debug.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/disk/empty-partition.h"
#include "machined/confined/parser-client/parser-messages.h"
#include "machined/process1/init/init-protocol.h"
#include "machined/upgrade/upgrader.h"
#include "machined/upgrade/version-floor.h"

namespace talos::machined {
namespace {

using Stage = UpgradeRecord::Stage;
using install::nameOf;
using install::Slot;

// A service that comes up and exits immediately is not healthy.
constexpr auto kHealthyFor = 5 * kj::SECONDS;
constexpr size_t kMostFailureText = 4096;
constexpr kj::StringPtr kNotHealthy = "the system on trial was not healthy"_kj;

}  // namespace

// Tells process 1 that it no longer has to end a trial.
kj::Promise<void> Upgrader::settle() {
  int raw;
  KJ_SYSCALL(raw = memfd_create("settled", MFD_CLOEXEC));
  kj::AutoCloseFd fd(raw);
  co_await deps.process1.hold(process1::kSettled, fd);
  settled = true;
}

kj::Promise<void> Upgrader::resume(kj::Maybe<BeginsAnew> beginsAnew) {
  if (resumed || !hasSlots()) co_return;
  resumed = true;
  co_await deps.records.load()
      .then([&](kj::Maybe<UpgradeRecord> found) {
        record = kj::mv(found);
        return findOut(beginsAnew);
      })
      .then([this]() { return clearTrialFailure(); })
      .catch_([this](kj::Exception&& e) {
        deps.node.announce(
            kj::str("upgrade: cannot find out which system is started next: ", messageOf(e)));
        publish();
      });
}

kj::Promise<void> Upgrader::findOut(kj::Maybe<BeginsAnew>& beginsAnew) {
  auto running = KJ_ASSERT_NONNULL(deps.running);
  auto trialFailure = co_await readTrialFailure();
  auto onDisk = co_await slots.look();
  auto& found = onDisk.state;
  auto finding = findingOf(record, running, found);
  if (finding == UpgradeFinding::kOnTrial) {
    if (record == nullptr) record = UpgradeRecord{.from = found.confirmed, .to = running};
    auto& r = KJ_ASSERT_NONNULL(record);
    bool first = r.stage != Stage::STARTED;
    // A choice that was reported as failed has reached the boot loader; the data is kept.
    if (first && r.stage != Stage::WRITTEN) r.empty = false;
    r.stage = Stage::STARTED;
    r.staged = false;
    if (r.toVersion.size() == 0) r.toVersion = kj::str(deps.version);
    publish();
    onTrial = true;
    if (first)
      deps.node.announce(kj::str("slot ", nameOf(running), " (", deps.version, ") is on trial"));
    tasks.add(trial());
    co_return co_await keep();
  }
  co_await settle();
  if (found.confirmed == running) co_await reportFailure(raiseFloorTo(runningVersion(onDisk)));
  switch (finding) {
    case UpgradeFinding::kFellBack:
      co_await fellBack(running, kj::mv(trialFailure));
      break;
    case UpgradeFinding::kStaged:
      publish();
      break;
    case UpgradeFinding::kCutOff:
      co_await cutOff(beginsAnew);
      break;
    case UpgradeFinding::kConfirmed: {
      auto& r = KJ_ASSERT_NONNULL(record);
      r.stage = Stage::DONE;
      r.reason = kj::String();
      publish();
      co_await keep();
      break;
    }
    case UpgradeFinding::kWaiting:
      publish();
      KJ_IF_MAYBE (r, record) {
        if (r->isOver()) co_return co_await choose(running, nullptr);
      }
      // The brain died between the boot loader's choice and the reboot.
      if (deps.process1.brainRestarts() > 0) tasks.add(rebootInto());
      break;
    default:
      publish();
  }
}

// A machined that exits during the write may do so each time; a power cut does not recur.
kj::Promise<void> Upgrader::cutOff(kj::Maybe<BeginsAnew>& beginsAnew) {
  KJ_IF_MAYBE (ask, beginsAnew) {
    if (deps.process1.brainRestarts() == 0 && co_await (*ask)(KJ_ASSERT_NONNULL(record))) {
      auto& r = KJ_ASSERT_NONNULL(record);
      if (!r.emptying) {
        record = nullptr;
        co_return publish();
      }
      // Only this record says that EPHEMERAL is half zeroed.
      r.stage = Stage::FAILED;
      r.reason = kj::str("it was interrupted; it is tried again");
      publish();
      co_return co_await keep();
    }
  }
  co_await failed(kj::str(
      "it was interrupted (a power cut, or a restart of machined) before the new system was "
      "ready to be tried"));
}

// Returns the version of the running system's image, whose builder may number differently.
kj::String Upgrader::runningVersion(const install::SlotsOnDisk& found) const {
  for (auto& system : found.systems) {
    if (system.slot == KJ_ASSERT_NONNULL(deps.running)) return kj::str(system.version);
  }
  return kj::str(deps.version);
}

// Raises the floor, but not for a running system that is not confirmed. Resolves to the floor when
// it is on the disk.
kj::Promise<kj::String> Upgrader::raiseFloor() {
  auto found = co_await slots.look();
  if (found.state.confirmed == KJ_ASSERT_NONNULL(deps.running)) {
    co_return co_await raiseFloorTo(runningVersion(found));
  }
  co_return (co_await deps.records.readVersionFloor()).orDefault(kj::String());
}

kj::Promise<kj::String> Upgrader::raiseFloorTo(kj::String running) {
  auto kept = (co_await deps.records.readVersionFloor()).orDefault(kj::String());
  auto floor = kj::str(raisedFloor(kept, running));
  if (floor != kept) co_await deps.records.writeVersionFloor(floor);
  co_return kj::mv(floor);
}

// A failure of META does not end the trial; an upgrade needs the floor, and retries.
kj::Promise<void> Upgrader::reportFailure(kj::Promise<kj::String> raising) {
  return raising.ignoreResult().catch_([this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
}

// Returns nullptr if META cannot be read.
kj::Promise<kj::Maybe<kj::String>> Upgrader::readTrialFailure() {
  kj::Maybe<kj::String> trialFailure;
  co_await kj::evalNow([&]() { return deps.records.readTrialFailure(); })
      .then([&](kj::Maybe<kj::String> left) { trialFailure = kj::mv(left); },
            [this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
  KJ_IF_MAYBE (text, trialFailure) {
    failureIsInMeta = true;
    co_return oneLine(*text, kMostFailureText);
  }
  co_return nullptr;
}

// Runs when the record has the failure. Also clears a failure of an earlier trial.
kj::Promise<void> Upgrader::clearTrialFailure() {
  if (!failureIsInMeta) return kj::READY_NOW;
  return kj::evalNow([&]() { return deps.records.clearTrialFailure(); })
      .catch_([this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
}

// If the disk has written the choice and reported a failure, it would start the other system at
// some later boot.
kj::Promise<void> Upgrader::revoke() {
  return choose(KJ_ASSERT_NONNULL(deps.running), nullptr).catch_([this](kj::Exception&& e) {
    deps.node.announce(kj::str(
        "upgrade: the next start may be that of the other system, on trial: ", messageOf(e)));
  });
}

kj::Promise<void> Upgrader::bootFailed(kj::String problems) {
  if (resumed || deps.trialLeft == nullptr) co_return;
  auto slot = nameOf(KJ_REQUIRE_NONNULL(deps.running));
  auto trialFailure = kj::str("its boot failed: ", problems);
  co_await within(
      deps.timer, kDiskTimeout, deps.records.writeTrialFailure(trialFailure),
      kj::str("META: writing the reason timed out after ", kDiskTimeout / kj::SECONDS, " s"))
      .catch_([this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
  deps.node.announce(kj::str("giving up slot ", slot, " (", deps.version, "): ", trialFailure,
                             "; rebooting into the other slot"));
  co_await deps.node.reboot(kNotHealthy);
}

kj::Promise<void> Upgrader::fellBack(Slot running, kj::Maybe<kj::String> trialFailure) {
  if (record == nullptr) {
    record = UpgradeRecord{.from = running, .to = install::otherThan(running)};
  }
  auto& r = KJ_ASSERT_NONNULL(record);
  if (!r.isOver())
    co_await failed(fallbackReason(r, trialFailure.map([](kj::String& w) { return w.asPtr(); })));
  co_await choose(running, nullptr);
  publish();
}

kj::Promise<void> Upgrader::emptyEphemeralIfAsked() {
  KJ_IF_MAYBE (r, record) {
    if (!r->emptying && (!onTrial || !r->empty)) co_return;
  } else {
    co_return;
  }
  auto& volumes = KJ_REQUIRE_NONNULL(deps.volumes);
  auto ephemeral = co_await volumes.ephemeral();
  co_await recordEmptying(true);
  co_await volumes.empty(kj::str(ephemeral));
  co_await recordEmptying(false);
  deps.node.announce(
      kj::str("EPHEMERAL: ", ephemeral, " was emptied, as the upgrade was without --preserve"));
}

// Changes the current record: a rollback, which does not wait for the end of the boot, may have
// replaced it (newRecord()).
kj::Promise<void> Upgrader::recordEmptying(bool begins) {
  auto& r = KJ_REQUIRE_NONNULL(record);
  r.emptying = begins;
  if (!begins) r.empty = false;
  return keep();
}

// --- the trial

// Returns the duties recorded by this upgrade; nullptr if the old system recorded none, or they
// cannot be read. Then only the system itself is on trial.
kj::Promise<kj::Maybe<DutyRecord>> Upgrader::dutiesBefore() {
  kj::Maybe<DutyRecord> before;
  co_await kj::evalNow([&]() { return deps.records.loadDuties(); })
      .then([&](kj::Maybe<DutyRecord> found) { before = kj::mv(found); },
            [this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
  KJ_IF_MAYBE (duties, before) {
    if (duties->upgrade != KJ_ASSERT_NONNULL(record).began) before = nullptr;
  }
  co_return kj::mv(before);
}

kj::Promise<Health> Upgrader::trialHealth(const kj::Maybe<DutyRecord>& before) {
  auto health = co_await deps.node.health();
  if (health.hopeless) co_return kj::mv(health);
  KJ_IF_MAYBE (record, before) {
    bool elsewhere = health.lacks == nullptr;
    kj::Vector<kj::String> lacks;
    KJ_IF_MAYBE (text, health.lacks) lacks.add(kj::str(*text));
    for (auto& duty : failingOf(*record, co_await deps.node.duties())) {
      auto text = describe(duty);
      KJ_IF_MAYBE (found, health.lacks) {
        if (strstr(found->cStr(), text.cStr()) != nullptr) continue;
      }
      elsewhere = elsewhere && duty.causedElsewhere;
      lacks.add(kj::mv(text));
    }
    if (lacks.empty()) co_return Health{};
    co_return Health{.lacks = kj::strArray(lacks, "; "), .causedElsewhere = elsewhere};
  }
  co_return kj::mv(health);
}

kj::Promise<void> Upgrader::trial() {
  auto& r = KJ_ASSERT_NONNULL(record);
  auto begin = deps.timer.now();
  auto timeout = deps.trialLeft.orDefault(r.healthTimeoutS * kj::SECONDS);
  kj::Maybe<kj::TimePoint> healthySince;
  bool waitsForOthers = false;
  auto before = co_await dutiesBefore();
  for (;;) {
    auto health = co_await trialHealth(before).catch_([](kj::Exception&& e) {
      return Health{kj::str("cannot find out its health: ", messageOf(e))};
    });
    auto now = deps.timer.now();
    KJ_IF_MAYBE (lacks, health.lacks) {
      healthySince = nullptr;
      if (health.hopeless) co_return co_await giveUp(kj::mv(*lacks));
      if (r.reason != *lacks) {
        r.reason = kj::str(*lacks);
        publish();
        co_await saveOrReport();
      }
    } else {
      if (healthySince == nullptr) healthySince = now;
      bool steady = now - KJ_ASSERT_NONNULL(healthySince) >= kHealthyFor;
      if (steady && co_await confirm(kj::String())) co_return;
    }
    if (confirmers.size() > 0 && co_await confirmAsAsked(health.lacks)) co_return;
    if (health.causedElsewhere && !waitsForOthers && now - begin >= timeout) {
      co_await settle();
      waitsForOthers = true;
      deps.node.announce(kj::str("slot ", r.target(), " stays on trial, as the other slot could ",
                                 "not be healthy either: ", r.reason));
    }
    // The other nodes work again: this system gets its full time again.
    if (waitsForOthers && !health.causedElsewhere && health.lacks != nullptr) {
      waitsForOthers = false;
      begin = now;
      timeout = r.healthTimeoutS * kj::SECONDS;
    }
    if (!waitsForOthers && now - begin >= timeout) {
      co_return co_await giveUp(
          kj::str("it was not healthy within ", r.healthTimeoutS, " s: ", r.reason));
    }
    co_await deps.timer.afterDelay(kLookAgain);
  }
}

// Returns false if the disk reports an error; a retry may succeed.
kj::Promise<bool> Upgrader::confirm(kj::String reason) {
  auto& r = KJ_ASSERT_NONNULL(record);
  bool good = true;
  co_await choose(r.to, nullptr).catch_([&](kj::Exception&& e) {
    good = false;
    r.reason = kj::str("cannot confirm it: ", messageOf(e));
    publish();
  });
  if (!good) co_return false;
  co_await settle();
  co_await reportFailure(raiseFloor());
  onTrial = false;
  r.stage = Stage::DONE;
  r.reason = kj::mv(reason);
  auto outcome = r.reason.size() > 0 ? r.reason.asPtr() : "healthy and confirmed"_kj;
  deps.node.announce(kj::str("slot ", r.target(), " is ", outcome));
  refuseConfirmation("it is confirmed already");
  publish();
  co_await saveOrReport();
  co_return true;
}

// Called by the trial itself, so that it never gives up a system that is being confirmed.
kj::Promise<bool> Upgrader::confirmAsAsked(const kj::Maybe<kj::String>& lacks) {
  auto callers = kj::mv(confirmers);
  auto lacked = kj::str(lacks.orDefault(kj::String()));
  auto text = kj::str("confirmed by an operator", lacked.size() > 0 ? ", although: " : "", lacked);
  if (co_await confirm(kj::mv(text))) {
    for (auto& caller : callers) caller->fulfill(kj::str(lacked));
    co_return true;
  }
  auto& reason = KJ_ASSERT_NONNULL(record).reason;
  for (auto& caller : callers) caller->reject(error(ErrorKind::kUnavailable, reason));
  co_return false;
}

void Upgrader::refuseConfirmation(kj::StringPtr reason) {
  for (auto& caller : confirmers) {
    caller->reject(error(ErrorKind::kFailedPrecondition, kj::str("no trial is running: ", reason)));
  }
  confirmers.clear();
}

kj::Promise<kj::String> Upgrader::confirmTrial() {
  constexpr auto kNone = "no trial is running: "_kj;
  if (!onTrial) {
    fail(ErrorKind::kFailedPrecondition,
         isTried() ? kj::str(kNone, "the system on trial has not mounted STATE yet; repeat this")
                   : kj::str(kNone, "there is nothing to confirm; see talosctl get upgradestatus"));
  }
  auto& r = KJ_ASSERT_NONNULL(record);
  if (r.stage != Stage::STARTED) {
    fail(ErrorKind::kFailedPrecondition, kj::str(kNone, "it is given up: ", r.reason));
  }
  auto paf = kj::newPromiseAndFulfiller<kj::String>();
  confirmers.add(kj::mv(paf.fulfiller));
  co_return co_await paf.promise;
}

kj::Promise<void> Upgrader::giveUp(kj::String reason) {
  auto& r = KJ_ASSERT_NONNULL(record);
  r.stage = Stage::GIVING_UP;
  r.reason = kj::mv(reason);
  refuseConfirmation(kj::str("it is given up: ", r.reason));
  deps.node.announce(kj::str("giving up slot ", r.target(), ": ", r.reason,
                             "; rebooting into slot ", nameOf(r.from)));
  publish();
  co_await saveOrReport();
  co_await deps.node.reboot(kNotHealthy);
}

}  // namespace talos::machined
