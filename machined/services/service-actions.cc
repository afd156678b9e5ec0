#include "machined/services/service-actions.h"

#include <ctype.h>
#include <kj/debug.h>
#include <signal.h>

#include "common/base/error.h"
#include "common/base/node-messages.h"
#include "machined/services/service-health.h"
#include "machined/services/start-conditions.h"

namespace talos::machined {
namespace {

kj::String seconds(kj::Duration d) {
  auto tenths = d / (100 * kj::MILLISECONDS);
  return kj::str(tenths / 10, ".", tenths % 10, " s");
}

}  // namespace

ServiceActions::ServiceActions(ServiceSet& all, kj::Refcounted& service,
                               ServiceDefinition& definition, ServiceStatus& status,
                               ServiceRunner& runner)
    : all(all),
      definition(definition),
      status(status),
      runner(runner),
      work(all, service),
      part(all, service),
      health(all, service),
      end(all, service) {}

// --- the table, and its actions ---

void ServiceActions::feed(ServiceInput input) {
  if (status.isUnloaded()) return;
  auto next = step(status.phase(), input);
  if (next.next == status.phase() && next.action == ServiceAction::kNone) return;
  status.enter(next.next);
  act(next.action);
}

void ServiceActions::feedIf(uint64_t turn, ServiceInput input) {
  if (status.turn() == turn) feed(input);
}

void ServiceActions::feedLater(ServiceInput input) {
  work.begin([this, input]() -> kj::Promise<void> {
    feed(input);
    return kj::READY_NOW;
  });
}

void ServiceActions::act(ServiceAction action) {
  switch (action) {
    case ServiceAction::kNone:
      // The only such step: a stop during a start or a search. The start or search continues, so
      // that there is a process to end.
      return status.addEvent(kj::str("Stopping as soon as ", definition.command,
                                     sought ? " is found" : " has started"));
    case ServiceAction::kAwait:
      policy = RestartPolicy();
      reason = nullptr;
      return work.begin([this, turn = status.turn()]() { return awaitConditions(turn); });
    case ServiceAction::kPrepare:
      status.addEvent("Running pre state");
      return work.begin([this, turn = status.turn()]() { return prepare(turn); });
    case ServiceAction::kSpawn:
      if (status.phase() == ServicePhase::kStarting) status.addEvent("Creating service runner");
      if (definition.part != nullptr) return feedLater(ServiceInput::kStarted);
      return work.begin([this]() { return spawn(); });
    case ServiceAction::kAttend:
      return attend();
    case ServiceAction::kPause:
      return pause();
    case ServiceAction::kTerminate:
      return terminate();
    case ServiceAction::kKill:
      status.addEvent(kj::str("Sending SIGKILL to ", definition.command, " (PID ", status.pid,
                              "), which has not exited within 10 s"));
      all.tasks().add(runner.signal(SIGKILL));
      return work.drop();
    case ServiceAction::kConclude:
      return conclude();
    case ServiceAction::kGiveUp:
      ended();
      status.addEvent(reason);
      return work.drop();
  }
}

void ServiceActions::attend() {
  startedAt = all.deps().timer.now();
  hasRun = true;
  if (!adopted) status.forgetHealth();
  bool isPart = definition.part != nullptr;
  status.addEvent(isPart ? kj::str("Started ", definition.command)
                         : runner.startedMessage({status.pid, adopted}));
  work.drop();
  if (isPart) part.begin([this, turn = status.turn()]() { return runPart(turn); });
  if (definition.health == nullptr) return health.drop();
  health.begin([this, turn = status.turn()]() { return watchHealth(turn); });
}

void ServiceActions::pause() {
  auto& deps = all.deps();
  auto delay = policy.next(deps.timer.now() - startedAt, deps.random());
  ended();
  status.addEvent(delay == 0 * kj::SECONDS ? kj::str(reason, "; restarting")
                                           : kj::str(reason, "; restarting in ", seconds(delay)));
  reason = nullptr;
  pauseFor(delay);
}

void ServiceActions::terminate() {
  health.drop();
  if (definition.part != nullptr) {
    status.addEvent(kj::str("Stopping ", definition.command));
    part.drop();
    return feedLater(ServiceInput::kExited);
  }
  status.addEvent(kj::str("Sending SIGTERM to ", definition.command, " (PID ", status.pid, ")"));
  work.begin([this, turn = status.turn()]() { return awaitGrace(turn); });
}

void ServiceActions::conclude() {
  ended();
  status.addEvent(reason == nullptr ? kj::str(messages::kServiceStopped)
                                    : kj::str(messages::kServiceStopped, ": ", reason));
  reason = nullptr;
  work.drop();
  if (!status.startWhenDown || all.closed()) return;
  status.startWhenDown = false;
  feed(ServiceInput::kStart);
}

void ServiceActions::ended() {
  status.pid = 0;
  status.forgetHealth();
  health.drop();
  part.drop();
  end.drop();
}

void ServiceActions::unload(kj::StringPtr problem) {
  KJ_REQUIRE(definition.part != nullptr, definition.id);
  status.enter(ServicePhase::kFinished);
  ended();
  work.drop();
  status.unload(kj::str("Service unloaded: ", problem));
}

// --- waiting and starting ---

kj::Promise<void> ServiceActions::awaitConditions(uint64_t turn) {
  auto& timer = all.deps().timer;
  StartWait wait(definition.givesWayFor);
  for (;;) {
    auto decision = wait.decide(missingForStart(definition, all, hasRun), timer.now());
    for (auto& event : decision.events) status.addEvent(event);
    KJ_IF_MAYBE (delay, decision.checkNext) {
      co_await all.change().exclusiveJoin(timer.afterDelay(*delay));
    } else {
      break;
    }
  }
  feedIf(turn, ServiceInput::kReady);
}

kj::Promise<void> ServiceActions::prepare(uint64_t turn) {
  auto broken = co_await kj::evalNow([this]() { return runner.prepare(); })
                    .then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                          [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
  KJ_IF_MAYBE (e, broken) {
    if (status.turn() == turn) reason = kj::str("Pre state failed: ", messageOf(*e));
    feedIf(turn, ServiceInput::kBroken);
  } else {
    feedIf(turn, ServiceInput::kPrepared);
  }
}

// Prepares a restart, as a condition that held at the first start may no longer hold. Returns false
// if the service was stopped meanwhile.
kj::Promise<bool> ServiceActions::prepareAgain() {
  auto stopped = [this]() -> kj::Promise<void> {
    while (status.phase() == ServicePhase::kRestarting) co_await all.change();
  };
  co_await runner.prepare().exclusiveJoin(stopped());
  co_return status.phase() != ServicePhase::kDooming;
}

// A stop may be requested while the process is being started. The process exists all the same and
// must be recorded, so its inputs count in any turn.
kj::Promise<void> ServiceActions::spawn() {
  kj::Maybe<kj::Exception> broken;
  auto make = [this]() -> kj::Promise<kj::Maybe<ServiceBody::Started>> {
    bool again = runner.hasPreparation() && status.phase() == ServicePhase::kRestarting;
    if (again && !co_await prepareAgain()) co_return nullptr;
    co_return co_await runner.start();
  };
  auto started = co_await kj::evalNow(make).catch_(
      [&broken](kj::Exception&& e) -> kj::Maybe<ServiceBody::Started> {
        broken = kj::mv(e);
        return nullptr;
      });
  KJ_IF_MAYBE (s, started) co_return has(*s);
  KJ_IF_MAYBE (e, broken) {
    reason = kj::str("Cannot start ", definition.command, ": ", messageOf(*e));
  }
  // A stop came during the start, and the runtime reported a failure, but may have started the
  // container all the same. So the container is looked for.
  if (runner.isContainer() && status.phase() == ServicePhase::kDooming) co_return co_await seek();
  startedAt = all.deps().timer.now();  // it did not run at all
  feed(runner.isContainer() ? ServiceInput::kNotYet : ServiceInput::kBroken);
}

void ServiceActions::has(ServiceBody::Started started) {
  status.pid = started.pid;
  adopted = started.adopted;
  end.begin([this]() { return watchEnd(); });
  feed(ServiceInput::kStarted);
}

void ServiceActions::pauseFor(kj::Duration delay) {
  work.begin([this, turn = status.turn(), delay]() { return awaitPause(turn, delay); });
}

kj::Promise<void> ServiceActions::awaitPause(uint64_t turn, kj::Duration delay) {
  if (delay > 0 * kj::SECONDS) co_await all.deps().timer.afterDelay(delay);
  feedIf(turn, ServiceInput::kDue);
}

// containerd may be away when the signal is sent, and delivers it when it is back. So the grace
// time starts after the delivery.
kj::Promise<void> ServiceActions::awaitGrace(uint64_t turn) {
  co_await runner.signal(SIGTERM).catch_([this](kj::Exception&& e) { all.failed(kj::mv(e)); });
  co_await all.deps().timer.afterDelay(kGrace);
  feedIf(turn, ServiceInput::kDue);
}

// --- running ---

kj::Promise<void> ServiceActions::runPart(uint64_t turn) {
  auto problem = co_await kj::evalNow([&]() { return KJ_ASSERT_NONNULL(definition.part)(); })
                     .then([]() { return kj::str("it finished"); },
                           [](kj::Exception&& e) { return messageOf(e); });
  if (status.turn() != turn) co_return;
  reason = kj::str(definition.command, " ended: ", problem);
  feed(ServiceInput::kExited);
}

kj::Promise<void> ServiceActions::watchHealth(uint64_t turn) {
  auto& timer = all.deps().timer;
  auto& check = KJ_ASSERT_NONNULL(definition.health);
  HealthPace pace(check);
  co_await timer.afterDelay(check.delay);
  while (status.turn() == turn) {
    auto problem = co_await checkOnce(check, timer);
    if (status.turn() != turn) co_return;
    bool healthy = problem == nullptr;
    status.setHealth(kj::mv(problem));
    co_await timer.afterDelay(pace.next(healthy));
  }
}

kj::Promise<void> ServiceActions::watchEnd() {
  reason = co_await runner.ended();
  bool completed = status.phase() == ServicePhase::kRunning && runner.isCompleted();
  feed(completed ? ServiceInput::kCompleted : ServiceInput::kExited);
}

// --- what a predecessor has left ---

void ServiceActions::adopt(AdoptionAction action, int survivor) {
  switch (action) {
    case AdoptionAction::kAdopt:
      runner.adopt(survivor);
      status.enter(ServicePhase::kSeeking);
      return has({survivor, true});
    case AdoptionAction::kSeek:
      return adoptContainer();
    default:
      return adoptEnded(action);
  }
}

// Only containerd, which may have been killed as well, knows if the container still runs.
void ServiceActions::adoptContainer() {
  status.enter(ServicePhase::kSeeking);
  auto known = status.pid == 0 ? kj::String() : kj::str(" (PID ", status.pid, ")");
  status.addEvent(
      kj::str("Looking for ", definition.command, known, " after a restart of machined"));
  reason = kj::str(definition.command, " ended while machined was away");
  reason[0] = static_cast<char>(toupper(reason[0]));
  sought = true;
  work.begin([this]() { return seek(); });
}

// Ends when this is known: then the service has a process, or nothing is left of it.
kj::Promise<void> ServiceActions::seek() {
  auto found = co_await runner.find();
  sought = false;
  KJ_IF_MAYBE (pid, found.pid) co_return has({*pid, true});
  KJ_IF_MAYBE (problem, found.problem) {
    reason = kj::mv(*problem);
  } else {
    co_await runner.removeRemains();
    // How it ended is not known, and a second run is worse than none.
    if (definition.restart == ServiceRestart::kNever) feed(ServiceInput::kStop);
  }
  feed(ServiceInput::kExited);
}

// No process of the service runs.
void ServiceActions::adoptEnded(AdoptionAction action) {
  status.forgetHealth();  // health of an exited process
  auto crash = runner.reportCrash();
  switch (action) {
    case AdoptionAction::kRestart:
      // The process may have ended before the previous brain, and its exit is still on its way. The
      // pause lets the exit be acknowledged before the next start.
      status.enter(ServicePhase::kPausing);
      ended();
      status.addEvent(kj::str(runner.endedMeanwhile(crash), "; restarting"));
      runner.markMemoryKillsReported();
      return pauseFor(100 * kj::MILLISECONDS);
    case AdoptionAction::kStart:
      return feed(ServiceInput::kStart);
    case AdoptionAction::kReportStop:
      status.enter(ServicePhase::kFinished);
      ended();
      return status.addEvent(kj::str(messages::kServiceStopped, " while machined was away", crash));
    case AdoptionAction::kKeepFinished:
      return status.enter(ServicePhase::kFinished);
    case AdoptionAction::kKeepFailed:
      return status.enter(ServicePhase::kFailed);
    default:
      return status.addEvent("Service loaded");
  }
}

}  // namespace talos::machined
