#include "machined/config/change-trial.h"

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/memory/zeroize.h"
#include "machined/config/config-change.h"
#include "machined/config/trial-plan.h"

namespace talos::machined {
namespace {

constexpr auto kLookAgain = 1 * kj::SECONDS, kTryAgain = 10 * kj::SECONDS;
// The least time of a trial after a crash of the brain: what was fulfilled has to be seen again.
constexpr auto kLeastLeft = 1 * kj::MINUTES;
// A brain that begins so long after the end has predecessors that all died in their least time:
// process 1 starts them at most a minute apart.
constexpr auto kMostOverdue = 5 * kj::MINUTES;
// How often the duties are noted again before the boot of a staged config.
constexpr auto kNoteAgain = 10 * kj::MINUTES;

kj::String shortDuration(kj::Duration time) {
  auto seconds = time / kj::SECONDS;
  if (seconds > 0 && seconds % 60 == 0) return kj::str(seconds / 60, " min");
  return kj::str(seconds, " s");
}

// Returns true while a sequence runs that nothing may disturb: STATE may be gone, and services are
// stopped.
bool isBusy(ConfigHost& host) {
  auto sequence = host.sequence();
  bool runs = sequence.size() > 0 && sequence != "boot" && sequence != "initialize";
  return runs || host.isLeaving();
}

// Resolves when no apply runs. After an apply in mode reboot that is never.
kj::Promise<void> whenApplied(ChangeTrial::Dependencies& deps) {
  for (;;) {
    auto work = deps.applying();
    KJ_IF_MAYBE (done, work) {
      co_await kj::mv(*done);
      if (deps.applying() != nullptr) co_await deps.timer.afterDelay(kLookAgain);
    } else {
      co_return;
    }
  }
}

// Resolves when no apply and no such sequence runs.
kj::Promise<void> whenFree(ChangeTrial::Dependencies& deps) {
  co_await whenApplied(deps);
  while (isBusy(deps.host)) {
    co_await deps.timer.afterDelay(kLookAgain);
    co_await whenApplied(deps);
  }
}

bool needsReboot(ChangeTrial::Dependencies& deps, config::Config::Reader before) {
  if (deps.disk.whyNotDurable() != nullptr) return false;  // the next boot would not have it
  if (deps.host.bootFailed() || deps.host.sequence().size() > 0) return true;
  KJ_IF_MAYBE (running, deps.running()) {
    for (auto& change : config::changes(running->get(), before)) {
      if (!change.live) return true;
    }
    return false;
  }
  return true;
}

void report(ConfigHost& host, const kj::Exception& e) {
  host.print(kj::str("machine config: ", messageOf(e)), Tone::kAlarm);
}

constexpr kj::StringPtr kNotValid =
    "the previous config is not valid any more; the new one stays"_kj;

}  // namespace

// The last good config, and what differs from it.
struct ChangeTrial::Good {
  CheckedConfig config;
  ChangeKinds kinds;
};

ChangeTrial::ChangeTrial(Dependencies given)
    : deps(kj::mv(given)),
      record(deps.process1, deps.records, deps.timer, deps.tasks,
             [this](kj::Exception&& e) { report(deps.host, e); }),
      held(deps.process1) {}

void HeldTrialEnd::take() {
  known = store.take([](rpc::HeldCount::Reader in) {
    return kj::origin<kj::TimePoint>() + static_cast<int64_t>(in.getNumber()) * kj::NANOSECONDS;
  });
}

kj::Promise<void> HeldTrialEnd::hold(kj::TimePoint end) {
  if (known == end) return kj::READY_NOW;
  known = end;
  return store.hold([&](rpc::HeldCount::Builder out) {
    out.setNumber(static_cast<uint64_t>((end - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS));
  });
}

kj::Promise<void> HeldTrialEnd::drop() {
  known = nullptr;
  return store.drop();
}

ChangeTrial::Plan::~Plan() noexcept(false) {
  zeroize(before);
}

void ChangeTrial::say(State next, kj::StringPtr what, Tone tone) {
  state = next;
  deps.host.changeTrialChanged(what, tone);
}

kj::Promise<void> ChangeTrial::reported(kj::Promise<void> work) {
  return work.catch_([this](kj::Exception&& e) { report(deps.host, e); });
}

bool ChangeTrial::runsBefore() {
  KJ_IF_MAYBE (lasting, deps.lasting()) return record.isBefore(*lasting);
  return false;
}

bool ChangeTrial::runsOnTrial() {
  if (!record.hasWayBack() || runsBefore()) return false;
  KJ_IF_MAYBE (lasting, deps.lasting()) return record.isAbout(*lasting);
  return false;
}

bool ChangeTrial::isUnderWay() {
  return isTrying() || state == State::REVERTING || runsOnTrial();
}

// --- the record

kj::Promise<void> ChangeTrial::prepare(Plan plan, kj::ArrayPtr<const char> wanted) {
  TrialRecord next;
  next.needsCall = plan.needsCall;
  next.timeout = plan.timeout;
  next.onlyInMemory = plan.onlyInMemory;
  if (runsOnTrial()) {
    auto& r = record.get();
    next.before = kj::heapArray(r.before.asPtr());
    for (auto& name : r.fulfilled) next.fulfilled.add(kj::str(name));
    next.needsCall = next.needsCall || r.needsCall;
    next.onlyInMemory = next.onlyInMemory && r.onlyInMemory;
    KJ_IF_MAYBE (lasting, deps.lasting()) next.add(*lasting);
  } else {
    next.before = kj::mv(plan.before);
    next.fulfilled = kj::mv(plan.fulfilled);
  }
  next.add(wanted);
  co_await record.replace(kj::mv(next));
  if (judge == nullptr) {
    state = State::NONE;
    reason = kj::String();
  }
}

// --- a start of the node

// Returns true if the disk has a record.
bool ChangeTrial::load() {
  if (!record.load()) return false;
  reason = kj::str(record.get().reason);
  if (!record.hasWayBack()) state = State::REVERTED;
  return true;
}

kj::Promise<void> ChangeTrial::beginBoot() {
  if (record.isKnown() || !load() || !record.hasWayBack()) co_return;
  auto& r = record.get();
  kj::Maybe<kj::String> copy;
  auto unreadable = kj::runCatchingExceptions([&]() { copy = deps.disk.read(); });
  if (unreadable != nullptr) co_return;
  bool isThere = copy != nullptr, isBefore = false, isOnTrial = false;
  KJ_IF_MAYBE (text, copy) {
    isBefore = text->asArray() == r.before.asPtr();
    isOnTrial = r.isAbout(text->asArray());
    zeroize(*text);
  }
  // The way back to a config with persist: false removes the copy.
  bool isGone =
      r.stage == Stage::TRYING ? isBefore || !isOnTrial : isThere && !isBefore && !isOnTrial;
  if (isGone) co_return co_await record.drop();
  if (r.stage == Stage::TRYING) {
    if (++r.boots > kMostTrialBoots) {
      r.stage = Stage::REVERTING;
      r.reason = kj::str("the node was started ", kMostTrialBoots,
                         " times with it, and the trial never came to its end");
      reason = kj::str(r.reason);
    }
    co_await record.tryToStore();
  }
  if (record.mustRevert()) co_await reported(writeBack());
}

// Writes the good config before the boot reads the copy.
kj::Promise<void> ChangeTrial::writeBack() {
  auto checked = co_await deps.checks.checkAgain(record.get().before);
  if (checked.errors.empty()) {
    co_await keepOnDisk(deps.disk, checked.config);
    co_return co_await reverted();
  }
  say(State::NONE, kNotValid, Tone::kAlarm);  // it was valid
  co_await record.drop();
}

kj::Promise<void> ChangeTrial::reverted() {
  auto& r = record.get();
  r.stage = Stage::REVERTED;
  zeroize(r.before);
  r.before = nullptr;
  r.fulfilled.clear();
  r.configs.clear();
  say(State::REVERTED, kj::str("the previous config is back: ", r.reason), Tone::kAlarm);
  co_await reported(held.drop());
  co_await record.tryToStore();  // the disk may keep the stage before: it means the same
}

// --- a start of the brain

kj::Promise<void> ChangeTrial::recover() {
  held.take();
  // Without a config the node has not booted yet: beginBoot() follows.
  if (deps.running() == nullptr || !load()) co_return;
  KJ_IF_MAYBE (end, held.end()) {
    bool isOverdue = runsOnTrial() && deps.timer.now() - *end > kMostOverdue;
    if (isOverdue && !record.mustRevert()) {
      record.get().stage = Stage::REVERTING;
      record.get().reason = kj::str("machined exits again and again with it");
    }
  }
  co_await reported(follow(false));
  // This brain may die as its predecessors did: the good config is put back before the controllers
  // read the other one.
  if (!isReverting || isBusy(deps.host)) co_return;
  co_await firstReverted.addBranch().exclusiveJoin(deps.timer.afterDelay(kTryAgain));
}

// --- the trial

kj::Promise<kj::Maybe<kj::Vector<kj::String>>> ChangeTrial::duties() {
  kj::Maybe<kj::Vector<kj::String>> names;
  if (runsOnTrial()) {
    auto& before = names.emplace();
    for (auto& name : record.get().fulfilled) before.add(kj::str(name));
  } else KJ_IF_MAYBE (running, deps.running()) {
    SecretMessage copy;  // the running config may be replaced meanwhile
    copy.setRoot(running->get());
    auto facts = deps.host.trialFacts(copy.getRoot<config::Config>().asReader(), false);
    kj::Maybe<TrialFacts> found;
    co_await within(deps.timer, kDutiesTimeout, kj::mv(facts),
                    kj::str("the duties of the node are unknown"))
        .then([&](TrialFacts&& f) { found = kj::mv(f); },
              [&](kj::Exception&& e) { deps.host.print(messageOf(e), Tone::kInfo); });
    KJ_IF_MAYBE (f, found) names = trialDuties(f->duties);
  }
  co_return kj::mv(names);
}

kj::Promise<void> ChangeTrial::follow(bool fresh) {
  if (!record.hasWayBack() || deps.running() == nullptr) co_return;
  auto& r = record.get();
  if (record.mustRevert()) {
    if (runsBefore()) co_return co_await reverted();
    if (runsOnTrial()) co_return beginRevert();
  }
  if (runsOnTrial()) co_return begin(fresh);
  if (!runsBefore()) co_return co_await forget();  // it was applied without a trial
  // The good config runs; one that is on trial may be on disk for the next boot.
  bool wasTrying = judge != nullptr;
  stop();
  auto other = otherOnDisk(deps.disk, r.before);
  bool isStaged = false;
  KJ_IF_MAYBE (text, other) {
    isStaged = r.isAbout(*text);
    zeroize(*text);
  }
  if (isStaged) {
    watching = noteStaged().eagerlyEvaluate([this](kj::Exception&& e) { report(deps.host, e); });
    co_return;
  }
  state = State::NONE;
  if (wasTrying) {
    say(State::NONE, "the previous config was applied again; the trial ended", Tone::kInfo);
  }
  co_await reported(held.drop());
  co_await record.drop();
}

// Notes again what the node does, so that a config that is staged for a later boot is not blamed
// for what has failed before that.
kj::Promise<void> ChangeTrial::noteStaged() {
  for (;;) {
    co_await deps.timer.afterDelay(kNoteAgain);
    auto names = co_await duties();
    if (isBusy(deps.host) || deps.tries() || !record.hasWayBack() || !runsBefore()) continue;
    KJ_IF_MAYBE (now, names) {
      record.get().fulfilled = kj::mv(*now);
      co_await record.tryToStore();
    }
  }
}

void ChangeTrial::begin(bool fresh) {
  if (!fresh && judge != nullptr) return;  // it continues
  auto& r = record.get();
  auto left = r.timeout;
  KJ_IF_MAYBE (known, held.end()) {
    if (!fresh) left = *known - deps.timer.now();
  }
  stop();
  ++number;
  leastEnd = nullptr;
  if (left < kLeastLeft) {
    left = kLeastLeft;
    leastEnd = deps.timer.now() + left;
  }
  judge.emplace(
      TrialJudge::Terms{.before = r.fulfilled, .needsCall = r.needsCall, .timeout = r.timeout},
      deps.timer.now(), left);
  watching = watch(left).eagerlyEvaluate(
      [this](kj::Exception&& e) { deps.host.print(messageOf(e), Tone::kAlarm); });
}

void ChangeTrial::stop() {
  watching = kj::READY_NOW;
  judge = nullptr;
}

// The node does not lose a call by a crash of the brain.
void ChangeTrial::called() {
  KJ_IF_MAYBE (j, judge) {
    if (!j->called() || !record.exists() || !record.get().needsCall) return;
    record.get().needsCall = false;
    deps.tasks.add(record.tryToStore());
  }
}

kj::Promise<void> ChangeTrial::forget(rpc::ApplyMode mode) {
  if (!record.isKnown()) load();
  if (mode == rpc::ApplyMode::STAGED && isUnderWay()) co_return;
  bool wasTrying = judge != nullptr;
  stop();
  reason = kj::String();
  state = State::NONE;
  if (wasTrying) {
    say(State::NONE, "the config was applied without a trial; it stays", Tone::kInfo);
  }
  co_await reported(held.drop());
  co_await record.drop();
}

kj::Promise<ChangeTrial::Good> ChangeTrial::readGood() {
  auto text = kj::heapArray(record.get().before.asPtr());
  KJ_DEFER(zeroize(text));
  for (;;) {
    kj::Maybe<CheckedConfig> checked;
    co_await reported(
        deps.checks.checkAgain(text).then([&](CheckedConfig&& c) { checked = kj::mv(c); }));
    KJ_IF_MAYBE (c, checked) {
      Good good{kj::mv(*c), {}};
      KJ_IF_MAYBE (running, deps.running()) {
        if (good.config.errors.empty()) {
          good.kinds = kindsOf(config::changes(good.config.config.get(), running->get()));
        }
      }
      co_return kj::mv(good);
    }
    co_await deps.timer.afterDelay(kTryAgain);
  }
}

kj::Promise<void> ChangeTrial::watch(kj::Duration left) {
  say(State::TRYING, kj::str("the config is on trial for at most ", shortDuration(left)),
      Tone::kInfo);
  auto good = co_await readGood();
  if (!good.config.errors.empty()) {  // it was valid when it ran
    say(State::NONE, kNotValid, Tone::kAlarm);
    judge = nullptr;
    co_await reported(held.drop());
    co_return co_await record.drop();
  }
  for (bool isOver = false; !isOver;) {
    auto end = KJ_ASSERT_NONNULL(judge).end();
    if (leastEnd != end) co_await reported(held.hold(end));
    bool looked = false;
    co_await reported(decide(good).then([&](bool over) {
      isOver = over;
      looked = true;
    }));
    if (!looked) co_await deps.timer.afterDelay(kTryAgain);
  }
  judge = nullptr;
  if (record.hasWayBack() && runsBefore()) co_await noteStaged();
}

// Looks at the node once. Returns true if the trial has come to its end.
kj::Promise<bool> ChangeTrial::decide(const Good& good) {
  bool standsStill = deps.tries() || isBusy(deps.host);
  TrialFacts facts;
  if (!standsStill) {
    facts = co_await deps.host.trialFacts(good.config.config.get(), good.kinds.network);
    if (good.kinds.work) facts.steadyFor = kClusterSteadyFor;
    co_await whenApplied(deps);  // an apply may replace the trial
    standsStill = facts.standsStill || deps.tries() || isBusy(deps.host);
  }
  if (!standsStill && co_await conclude(facts)) co_return true;
  co_await deps.timer.afterDelay(kLookAgain);
  if (standsStill) KJ_ASSERT_NONNULL(judge).postpone(kLookAgain);
  co_return false;
}

kj::Promise<bool> ChangeTrial::conclude(const TrialFacts& facts) {
  auto& j = KJ_ASSERT_NONNULL(judge);
  switch (j.judge(facts, deps.timer.now())) {
    case TrialJudge::Verdict::kGoOn:
      // The node has lived with it for the whole time: its starts say nothing about the config.
      if (j.hasOutlived() && record.get().boots > 0) {
        record.get().boots = 0;
        co_await record.tryToStore();
      }
      break;
    case TrialJudge::Verdict::kConfirm: {
      bool confirmed = false;
      co_await reported(confirm(facts.duties).then([&]() { confirmed = true; }));
      if (!confirmed) co_await deps.timer.afterDelay(kTryAgain);
      co_return confirmed;
    }
    case TrialJudge::Verdict::kRevert:
      record.get().stage = Stage::REVERTING;
      record.get().reason =
          facts.bootFailure != nullptr
              ? kj::str(j.lacks())
              : kj::str("not within ", shortDuration(record.get().timeout), ": ", j.lacks());
      beginRevert();
      co_return true;
  }
  co_return false;
}

// The config is good: it becomes the way back of a config that is staged for the next boot.
kj::Promise<void> ChangeTrial::confirm(kj::ArrayPtr<const Duty> duties) {
  auto& running = KJ_ASSERT_NONNULL(deps.running());
  auto& r = record.get();
  kj::Maybe<TrialRecord> next;
  auto staged = otherOnDisk(deps.disk, running.bytes());
  KJ_IF_MAYBE (text, staged) {
    KJ_DEFER(zeroize(*text));
    if (r.isAbout(*text)) {
      auto& other = next.emplace();
      other.before = kj::heapArray(running.bytes());
      other.fulfilled = trialDuties(duties);
      other.timeout = r.timeout;
      other.add(*text);
    }
  }
  co_await record.replace(kj::mv(next));
  say(State::CONFIRMED, "the config is confirmed: the node does what it did before the change",
      Tone::kInfo);
  co_await reported(held.drop());
}

// --- the way back

void ChangeTrial::beginRevert() {
  if (isReverting) return;
  isReverting = true;
  reason = kj::str(record.get().reason);
  say(State::REVERTING, kj::str("the previous config comes back: ", reason), Tone::kAlarm);
  auto tried = kj::newPromiseAndFulfiller<void>();
  firstReverted = tried.promise.fork();
  deps.tasks.add(kj::evalLater(
      [this, tried = kj::mv(tried.fulfiller)]() mutable { return revert(kj::mv(tried)); }));
}

// Fulfills `tried` after the first attempt.
kj::Promise<void> ChangeTrial::revert(kj::Own<kj::PromiseFulfiller<void>> tried) {
  KJ_DEFER(isReverting = false);
  for (;;) {
    bool done = false;
    co_await reported(tryRevert().then([&](bool d) { done = d; }));
    tried->fulfill();
    if (done) co_return;
    co_await deps.timer.afterDelay(kTryAgain);
  }
}

// Returns true if nothing is left to do: the config is back, the node reboots into it, or another
// change has replaced the trial.
kj::Promise<bool> ChangeTrial::tryRevert() {
  co_await whenFree(deps);
  if (!record.mustRevert()) co_return true;
  // On a full STATE the config itself may still fit.
  co_await record.tryToStore();
  if (!record.mustRevert()) co_return true;
  auto text = kj::heapArray(record.get().before.asPtr());
  KJ_DEFER(zeroize(text));
  auto checked = co_await deps.checks.checkAgain(text);
  co_await whenFree(deps);
  if (!record.mustRevert()) co_return true;
  if (!checked.errors.empty()) {
    say(State::NONE, kNotValid, Tone::kAlarm);
    co_await reported(held.drop());
    co_await record.drop();
    co_return true;
  }
  auto mode =
      needsReboot(deps, checked.config.get()) ? rpc::ApplyMode::REBOOT : rpc::ApplyMode::NO_REBOOT;
  co_await deps.restore(mode, kj::mv(checked.config));
  co_return true;
}

void ChangeTrial::fill(rpc::ConfigTrial::Builder out) const {
  out.setState(state);
  out.setNumber(number);
  KJ_IF_MAYBE (j, judge) {
    if (state != State::TRYING) return;
    out.setLeftMs(static_cast<uint64_t>(
        kj::max((j->end() - deps.timer.now()) / kj::MILLISECONDS, int64_t(1))));
    out.setLacks(j->lacks());
    out.setReached(j->isReached());
  } else if (state == State::REVERTING || state == State::REVERTED) {
    out.setReason(reason);
  }
}

}  // namespace talos::machined
