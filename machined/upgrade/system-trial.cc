#include "machined/upgrade/system-trial.h"

#include <kj/debug.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "machined/confined/parser-client/parser-messages.h"
#include "machined/process1/init/init-protocol.h"

namespace talos::machined {
namespace {

using install::nameOf;

constexpr auto kHealthyFor = 5 * kj::SECONDS, kHealthInterval = 1 * kj::SECONDS,
               kMetaTimeout = 10 * kj::SECONDS;
// Process 1 reboots a minute after the trial's time.
constexpr auto kTurnTimeout = 40 * kj::SECONDS;
constexpr size_t kMostFailureText = 4096;
constexpr kj::StringPtr kNotHealthy = "the system on trial was not healthy"_kj;
constexpr kj::StringPtr kNoTrial = "no trial is running: "_kj;

// Returns the system's own health together with its failing duties.
Health withDuties(Health own, kj::ArrayPtr<const Duty> failing) {
  bool elsewhere = own.lacks == nullptr;
  kj::Vector<kj::String> lacks;
  KJ_IF_MAYBE (text, own.lacks) lacks.add(kj::str(*text));
  for (auto& duty : failing) {
    if (duty.name == kNetworkDuty) continue;  // counted by withNetwork()
    auto text = describe(duty);
    KJ_IF_MAYBE (found, own.lacks) {
      if (strstr(found->cStr(), text.cStr()) != nullptr) continue;
    }
    elsewhere = elsewhere && duty.causedElsewhere;
    lacks.add(kj::mv(text));
  }
  if (lacks.empty()) return Health{};
  return Health{.lacks = kj::strArray(lacks, "; "), .causedElsewhere = elsewhere};
}

// Adds the missing part of the network, unless the network was incomplete before the upgrade.
Health withNetwork(Health own, const kj::Maybe<DutyRecord>& before) {
  KJ_IF_MAYBE (record, before) {
    for (auto& name : record->failing) {
      if (name == kNetworkDuty) return own;
    }
  }
  KJ_IF_MAYBE (missing, own.network) {
    auto text = kj::str("the network is not complete: ", *missing);
    own.lacks = own.lacks.map([&](kj::String& others) { return kj::str(others, "; ", text); })
                    .orDefault(kj::str(text));
    own.causedElsewhere = false;
  }
  return own;
}

// Adds that services of the old system still run.
Health withServices(Health own, kj::Maybe<RootSwitch&> root) {
  KJ_IF_MAYBE (switching, root) {
    KJ_IF_MAYBE (rest, switching->unreplaced()) {
      own.lacks = own.lacks.map([&](kj::String& others) { return kj::str(others, "; ", *rest); })
                      .orDefault(kj::str(*rest));
      own.causedElsewhere = false;
    }
  }
  return own;
}

// Returns "6 min", or below a minute "40 s"; never less than is left.
kj::String roughTime(kj::Duration left) {
  auto seconds = (left + 1 * kj::SECONDS - 1 * kj::NANOSECONDS) / kj::SECONDS;
  if (seconds > 60) return kj::str((seconds + 59) / 60, " min");
  return kj::str((seconds + 9) / 10 * 10, " s");
}

}  // namespace

// --- the time

bool TrialClock::isSteady(const Health& health, kj::TimePoint now) {
  if (health.lacks != nullptr) {
    healthySince = nullptr;
    return false;
  }
  if (healthySince == nullptr) healthySince = now;
  return now - KJ_ASSERT_NONNULL(healthySince) >= kHealthyFor;
}

TrialClock::Verdict TrialClock::judge(const Health& health, kj::TimePoint now) {
  bool isLate = now - begin >= timeout;
  if (health.causedElsewhere) {
    if (waitsForOthers || !isLate) return Verdict::kInTime;
    waitsForOthers = true;
    return Verdict::kWaitForOthers;
  }
  if (!waitsForOthers) return isLate ? Verdict::kTooLate : Verdict::kInTime;
  // The other nodes work again: this system gets its full time again.
  if (health.lacks != nullptr) {
    waitsForOthers = false;
    begin = now;
    timeout = again;
  }
  return Verdict::kInTime;
}

kj::Maybe<kj::Duration> TrialClock::left(kj::TimePoint now) const {
  if (waitsForOthers) return nullptr;
  return kj::max(begin + timeout - now, 0 * kj::SECONDS);
}

// --- the trial

kj::Promise<void> SystemTrial::settle() {
  int raw;
  KJ_SYSCALL(raw = memfd_create("settled", MFD_CLOEXEC));
  kj::AutoCloseFd fd(raw);
  co_await deps.process1.hold(process1::kSettled, fd);
  settled = true;
}

void SystemTrial::begin(install::Slot confirmed, bool entered) {
  bool first = deps.records.phase() != UpgradePhase::kTrying;
  begun = true;
  deps.records.trying(confirmed, entered);
  if (!first) return;
  deps.node.announce(kj::str("slot ", nameOf(KJ_ASSERT_NONNULL(deps.running)), " (", deps.version,
                             ") is on trial"));
}

kj::Promise<void> SystemTrial::run() {
  auto limit = deps.records.current().healthTimeoutS;
  auto timeout = limit * kj::SECONDS;
  TrialClock clock(deps.timer.now(), deps.timeLeft.orDefault(timeout), timeout);
  auto before = co_await dutiesBefore();
  for (;;) {
    auto found = co_await health(before).catch_([](kj::Exception&& e) {
      return Health{kj::str("cannot find out its health: ", messageOf(e))};
    });
    auto now = deps.timer.now();
    bool isSteady = clock.isSteady(found, now);
    KJ_IF_MAYBE (lacks, found.lacks) {
      if (found.hopeless) co_return co_await giveUp(kj::mv(*lacks), true);
      co_await deps.node.reported(deps.records.explained(kj::str(*lacks)));
    } else {
      if (isSteady && co_await confirm(kj::String())) co_return;
    }
    if (!operators.empty() && co_await confirmForOperators(found.lacks)) co_return;
    switch (clock.judge(found, now)) {
      case TrialClock::Verdict::kInTime:
        break;
      case TrialClock::Verdict::kWaitForOthers:
        co_await waitForOthers();
        break;
      case TrialClock::Verdict::kTooLate:
        co_return co_await giveUp(
            kj::str("it was not healthy within ", limit, " s: ", deps.records.current().reason));
    }
    showTimeLeft(clock.left(now));
    co_await deps.timer.afterDelay(kHealthInterval);
  }
}

// Shows the time in the status alone: in the record each change would be a write to the disk.
void SystemTrial::showTimeLeft(kj::Maybe<kj::Duration> left) {
  auto& reason = deps.records.current().reason;
  kj::String text;
  KJ_IF_MAYBE (time, left) {
    if (reason.size() > 0) text = kj::str(reason, "; gives up in ", roughTime(*time));
  }
  deps.progress.say(UpgradeActivity::kIdle, text);
}

// Returns the duties recorded by this upgrade; nullptr if the old system recorded none, or they
// cannot be read. Then only the system itself is on trial.
kj::Promise<kj::Maybe<DutyRecord>> SystemTrial::dutiesBefore() {
  kj::Maybe<DutyRecord> before;
  co_await kj::evalNow([&]() { return deps.storage.loadDuties(); })
      .then([&](kj::Maybe<DutyRecord> found) { before = kj::mv(found); },
            [this](kj::Exception&& e) { deps.node.announceError(e); });
  KJ_IF_MAYBE (duties, before) {
    if (duties->upgrade != deps.records.current().began) before = nullptr;
  }
  co_return kj::mv(before);
}

kj::Promise<Health> SystemTrial::health(const kj::Maybe<DutyRecord>& before) {
  auto own = co_await deps.node.health();
  if (own.hopeless) co_return kj::mv(own);
  own = withNetwork(kj::mv(own), before);
  if (deps.records.current().live) own = withServices(kj::mv(own), deps.root);
  KJ_IF_MAYBE (record, before) {
    auto now = co_await deps.node.duties();
    auto failing = failingOf(*record, now, deps.node.dutyScope());
    co_return withDuties(kj::mv(own), failing);
  }
  co_return kj::mv(own);
}

kj::Promise<void> SystemTrial::waitForOthers() {
  co_await settle();
  auto& record = deps.records.current();
  deps.node.announce(kj::str("slot ", record.target(), " stays on trial, as the other slot could ",
                             "not be healthy either: ", record.reason));
}

// Returns false if the disk reports an error; a retry may succeed.
kj::Promise<bool> SystemTrial::confirm(kj::String reason) {
  kj::Maybe<kj::String> problem;
  co_await deps.slots.confirm().catch_([&](kj::Exception&& e) { problem = messageOf(e); });
  KJ_IF_MAYBE (text, problem) {
    co_await deps.node.reported(deps.records.explained(kj::str("cannot confirm it: ", *text)));
    co_return false;
  }
  co_await settle();
  // A failure of META does not end the trial; an upgrade needs the floor, and retries.
  co_await deps.node.reported(deps.admission.raiseFloor().ignoreResult());
  begun = false;
  deps.progress.say(UpgradeActivity::kIdle, "");
  auto saved = deps.records.done(kj::mv(reason));
  auto& record = deps.records.current();
  auto outcome = record.reason.size() > 0 ? record.reason.asPtr() : "healthy and confirmed"_kj;
  deps.node.announce(kj::str("slot ", record.target(), " is ", outcome));
  refuseOperators("it is confirmed already");
  co_await deps.node.reported(kj::mv(saved));
  co_return true;
}

// Called by the trial itself, so that it never gives up a system that is being confirmed.
kj::Promise<bool> SystemTrial::confirmForOperators(const kj::Maybe<kj::String>& lacks) {
  auto callers = kj::mv(operators);
  auto lacked = kj::str(lacks.orDefault(kj::String()));
  auto text = kj::str("confirmed by an operator", lacked.size() > 0 ? ", although: " : "", lacked);
  if (co_await confirm(kj::mv(text))) {
    for (auto& caller : callers) caller->fulfill(kj::str(lacked));
    co_return true;
  }
  auto& problem = deps.records.current().reason;
  for (auto& caller : callers) caller->reject(error(ErrorKind::kUnavailable, problem));
  co_return false;
}

void SystemTrial::refuseOperators(kj::StringPtr reason) {
  for (auto& caller : operators) {
    caller->reject(error(ErrorKind::kFailedPrecondition, kj::str(kNoTrial, reason)));
  }
  operators.clear();
}

kj::Promise<kj::String> SystemTrial::confirmAsItIs() {
  if (!begun) {
    fail(ErrorKind::kFailedPrecondition,
         isPossible()
             ? kj::str(kNoTrial, "the system on trial has not mounted STATE yet; repeat this")
             : kj::str(kNoTrial, "there is nothing to confirm; see talosctl get upgradestatus"));
  }
  if (deps.records.phase() != UpgradePhase::kTrying) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(kNoTrial, "it is given up: ", deps.records.current().reason));
  }
  auto paf = kj::newPromiseAndFulfiller<kj::String>();
  operators.add(kj::mv(paf.fulfiller));
  co_return co_await paf.promise;
}

kj::Promise<void> SystemTrial::giveUp(kj::String reason, bool hopeless) {
  deps.progress.say(UpgradeActivity::kIdle, "");
  auto saved = deps.records.givingUp(kj::mv(reason));
  auto& record = deps.records.current();
  refuseOperators(kj::str("it is given up: ", record.reason));
  deps.node.announce(kj::str("giving up slot ", record.target(), ": ", record.reason,
                             record.live ? "; returning to slot " : "; rebooting into slot ",
                             nameOf(record.from)));
  co_await deps.node.reported(kj::mv(saved));
  if (record.live) co_await deps.node.reported(returnTo(record.from));
  if (!hopeless) co_await takeTurn();
  co_await deps.node.reboot(kNotHealthy);
}

// Waits for this node's turn to be away from etcd. Does not reject: without it the node goes late.
kj::Promise<void> SystemTrial::takeTurn() {
  return deps.node.reported(
      within(deps.timer, kTurnTimeout, deps.clusters.leave(true, false),
             kj::str("etcd: this node did not get its turn to restart within ",
                     kTurnTimeout / kj::SECONDS, " s")));
}

// Rejects if the old system cannot take over.
kj::Promise<void> SystemTrial::returnTo(install::Slot slot) {
  auto& root = KJ_REQUIRE_NONNULL(deps.root);
  co_await root.prepare(slot);
  co_await root.enter(slot, nullptr);
}

// --- without the record

kj::Promise<void> SystemTrial::giveUpBoot(kj::String problems) {
  auto slot = nameOf(KJ_REQUIRE_NONNULL(deps.running));
  auto reason = kj::str("its boot failed: ", problems);
  co_await deps.node.reported(within(
      deps.timer, kMetaTimeout, deps.storage.writeTrialFailure(reason),
      kj::str("META: writing the reason timed out after ", kMetaTimeout / kj::SECONDS, " s")));
  deps.node.announce(kj::str("giving up slot ", slot, " (", deps.version, "): ", reason,
                             "; rebooting into the other slot"));
  co_await deps.node.reboot(kNotHealthy);
}

kj::Promise<kj::Maybe<kj::String>> SystemTrial::readReasonInMeta() {
  kj::Maybe<kj::String> reason;
  co_await kj::evalNow([&]() { return deps.storage.readTrialFailure(); })
      .then([&](kj::Maybe<kj::String> left) { reason = kj::mv(left); },
            [this](kj::Exception&& e) { deps.node.announceError(e); });
  KJ_IF_MAYBE (text, reason) {
    reasonIsInMeta = true;
    co_return oneLine(*text, kMostFailureText);
  }
  co_return nullptr;
}

kj::Promise<void> SystemTrial::clearReasonInMeta() {
  if (!reasonIsInMeta) return kj::READY_NOW;
  return deps.node.reported(kj::evalNow([&]() { return deps.storage.clearTrialFailure(); }));
}

}  // namespace talos::machined
