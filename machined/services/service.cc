#include "machined/services/service.h"

#include <capnp/message.h>
#include <kj/debug.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/backoff.h"
#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr auto kGrace = 10 * kj::SECONDS;
constexpr auto kRecheck = 1 * kj::SECONDS;
constexpr auto kAnswerFirst = 100 * kj::MILLISECONDS;

kj::String seconds(kj::Duration d) {
  auto tenths = d / (100 * kj::MILLISECONDS);
  return kj::str(tenths / 10, ".", tenths % 10, " s");
}

}  // namespace

Service::Service(ServiceSet& all, ServiceDefinition definition)
    : all(all), is(kj::mv(definition)) {}

bool Service::isUp() const {
  if (phase == ServicePhase::kFinished) return true;
  if (phase != ServicePhase::kRunning) return false;
  return is.health == nullptr || record.healthy();
}

Held<rpc::HeldService> Service::held() const {
  return {all.deps().process1, kj::str("service/", is.id)};
}

void Service::fill(rpc::Service::Builder out) const {
  out.setId(is.id);
  out.setPid(pid);
  record.fill(out);
  out.setChecked(is.health != nullptr);
}

void Service::tell(rpc::ServiceState state, kj::StringPtr message) {
  auto& deps = all.deps();
  record.add(state, message, deps.clock.now());
  capnp::MallocMessageBuilder scratch;
  auto event = scratch.initRoot<rpc::ServiceStateEvent>();
  event.setService(is.id);
  event.setState(state);
  event.setMessage(message);
  record.fillHealth(event.initHealth());
  deps.announce(event.asReader());
  all.tasks().add(kept());
  all.changed();
}

// A start was asked for, and there is no process yet that a successor could find.
bool Service::toBeStarted() const {
  return again || phase == ServicePhase::kWaiting || phase == ServicePhase::kPreparing ||
         phase == ServicePhase::kStarting;
}

kj::Promise<void> Service::kept() {
  if (unloaded) return kj::READY_NOW;  // nothing is left of it on purpose
  return held().hold([this](rpc::HeldService::Builder out) {
    fill(out.initShown());
    out.setStart(toBeStarted());
    out.setRestart(due.restart);
    out.setSignals(due.signals);
    out.setTo(due.to);
    out.setMemoryKills(memoryKills);
  });
}

// --- the table, and the doing ---

// A promise must not be destroyed by what runs inside it, so the old work is let go one turn later;
// its inputs no longer count, because their turn is over. What it came from goes after it.
void Service::replace(kj::Promise<void>& slot, kj::Promise<void> next) {
  struct Old {
    kj::Own<Service> service;
    kj::Promise<void> work;
  };
  all.tasks().add(kj::evalLater([old = Old{kj::addRef(*this), kj::mv(slot)}]() {}));
  slot = kj::mv(next);
}

// Begins one turn later, so that it finds itself in its slot when it takes the next step.
void Service::busy(kj::Promise<void>& slot, kj::Function<kj::Promise<void>()> begin) {
  replace(slot, kj::evalLater(kj::mv(begin)).eagerlyEvaluate([this](kj::Exception&& e) {
    all.failed(kj::mv(e));
  }));
}

void Service::feedIf(uint64_t since, ServiceInput input) {
  if (turn == since) feed(input);
}

void Service::feed(ServiceInput input) {
  if (unloaded) return;
  auto next = step(phase, input);
  if (next.next == phase && next.action == ServiceAction::kNone) return;
  phase = next.next;
  ++turn;
  act(next.action);
}

void Service::feedLater(ServiceInput input) {
  busy(work, [this, input]() -> kj::Promise<void> {
    feed(input);
    return kj::READY_NOW;
  });
}

void Service::act(ServiceAction action) {
  auto& deps = all.deps();
  switch (action) {
    case ServiceAction::kNone:
      // The only such step: a spawn overtaken by a stop. It goes on, to have a process to end.
      return tell(kj::str("Stopping as soon as ", is.command, " has started"));
    case ServiceAction::kAwait:
      policy = RestartPolicy();
      reason = nullptr;
      return busy(work, [this, since = turn]() { return awaitConditions(since); });
    case ServiceAction::kPrepare:
      tell("Running pre state");
      return busy(work, [this, since = turn]() { return prepare(since); });
    case ServiceAction::kSpawn:
      if (phase == ServicePhase::kStarting) tell("Creating service runner");
      if (is.part != nullptr) return feedLater(ServiceInput::kStarted);
      return busy(work, [this]() { return spawn(); });
    case ServiceAction::kAttend:
      startedAt = deps.timer.now();
      record.forgetHealth();
      tell(is.part != nullptr ? kj::str("Started ", is.command)
                              : kj::str("Started ", is.command, " (PID ", pid, ")"));
      return attend();
    case ServiceAction::kPause: {
      auto delay = policy.next(deps.timer.now() - startedAt, deps.random());
      ended();
      tell(delay == 0 * kj::SECONDS ? kj::str(reason, "; restarting")
                                    : kj::str(reason, "; restarting in ", seconds(delay)));
      reason = nullptr;
      return pauseFor(delay);
    }
    case ServiceAction::kTerminate:
      idle(health);
      if (is.part != nullptr) {
        tell(kj::str("Stopping ", is.command));
        idle(part);
        return feedLater(ServiceInput::kExited);
      }
      tell(kj::str("Sending SIGTERM to ", is.command, " (PID ", pid, ")"));
      deps.process1.signal(is.id, SIGTERM);
      return pauseFor(kGrace);
    case ServiceAction::kKill:
      tell(kj::str("Sending SIGKILL to ", is.command, " (PID ", pid,
                   "), which has not exited within 10 s"));
      deps.process1.signal(is.id, SIGKILL);
      return idle(work);
    case ServiceAction::kConclude:
      ended();
      tell(reason == nullptr ? kj::str("Service stopped") : kj::str("Service stopped: ", reason));
      reason = nullptr;
      idle(work);
      if (again && !all.closed()) start();
      return;
    case ServiceAction::kGiveUp:
      ended();
      tell(reason);
      return idle(work);
  }
}

void Service::ended() {
  pid = 0;
  record.forgetHealth();
  idle(health);
  idle(part);
}

// --- what is asked of it ---

void Service::start() {
  again = shown(phase) == rpc::ServiceState::STOPPING;
  feed(ServiceInput::kStart);
}

// Who asked for it may hang on this very service: the answer is to get out before.
kj::Promise<void> Service::whenAnswered() {
  auto later = all.deps().timer.afterDelay(kAnswerFirst);
  all.tasks().add(later.then([service = kj::addRef(*this)]() mutable { service->actOnDue(); }));
  return kept();
}

// A signal goes first: process 1 is told in this order, so a crash between the two sends it again
// and never loses it.
void Service::actOnDue() {
  if (unloaded) return;
  auto now = due;
  if (pid == now.to) {
    for (int number = 1; number <= 64; ++number) {
      if (now.signals >> (number - 1) & 1) signalNow(number);
    }
  }
  due = {};
  if (now.restart) restartNow();
  all.tasks().add(kept());
}

kj::Promise<void> Service::restart() {
  if (is.carriesApi) {
    due.restart = true;
    return whenAnswered();
  }
  restartNow();
  return kept();
}

void Service::restartNow() {
  if (all.closed() || unloaded) return;
  again = true;
  feed(ServiceInput::kStop);
  if (isDown()) start();
}

kj::Promise<void> Service::stop() {
  auto reference = kj::addRef(*this);
  again = false;
  due = {};
  feed(ServiceInput::kStop);
  auto& timer = all.deps().timer;
  auto deadline = timer.now() + kGrace + kGrace;
  while (!isDown()) {
    if (timer.now() >= deadline) {
      fail(ErrorKind::kDeadlineExceeded, kj::str("service \"", is.id, "\" (PID ", pid,
                                                 ") has not exited within 10 s after SIGKILL"));
    }
    co_await all.change().exclusiveJoin(timer.atTime(deadline));
  }
  co_await kept();
}

void Service::unload(kj::StringPtr why) {
  KJ_REQUIRE(is.part != nullptr, is.id);
  phase = ServicePhase::kFinished;
  ++turn;
  unloaded = true;
  ended();
  idle(work);
  tell(kj::str("Service unloaded: ", why));
  // A successor that loads it begins it: nobody has stopped it.
  all.tasks().add(held().drop());
}

kj::Promise<void> Service::signal(int number) {
  if (is.part != nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("service \"", is.id, "\" has no process of its own; use restart"));
  }
  if (pid == 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str("service \"", is.id, "\" is not running"));
  }
  if (is.carriesApi) {
    if (due.to != pid) due.signals = 0;
    due.signals |= 1ull << (number - 1);
    due.to = pid;
    return whenAnswered();
  }
  signalNow(number);
  return kept();  // process 1 does what it is asked for in order
}

void Service::signalNow(int number) {
  if (self) {
    KJ_SYSCALL(::kill(pid, number));
  } else {
    all.deps().process1.signal(is.id, number);
  }
}

// --- waiting and starting ---

kj::Vector<kj::String> Service::unmet() {
  kj::Vector<kj::String> missing;
  for (auto& condition : is.conditions) {
    if (!condition->met()) missing.add(condition->description());
  }
  for (auto& other : is.dependsOn) {
    if (!all.isUp(other)) missing.add(kj::str("service \"", other, "\" to be \"up\""));
  }
  return missing;
}

kj::Promise<void> Service::awaitConditions(uint64_t since) {
  kj::String shownText;
  for (;;) {
    auto missing = unmet();
    if (missing.empty()) break;
    auto text = kj::str("Waiting for ", kj::strArray(missing, ", "));
    if (text != shownText) {
      tell(text);
      shownText = kj::mv(text);
    }
    co_await all.change().exclusiveJoin(all.deps().timer.afterDelay(kRecheck));
  }
  feedIf(since, ServiceInput::kReady);
}

kj::Promise<void> Service::prepare(uint64_t since) {
  kj::Maybe<kj::Exception> broken;
  KJ_IF_MAYBE (preWork, is.preWork) {
    broken = co_await kj::evalNow([&]() { return (*preWork)(); })
                 .then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                       [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
  }
  KJ_IF_MAYBE (e, broken) {
    if (turn == since) reason = kj::str("Pre state failed: ", messageOf(*e));
    feedIf(since, ServiceInput::kBroken);
  } else {
    feedIf(since, ServiceInput::kPrepared);
  }
}

kj::Promise<Process1::Started> Service::askForChild() {
  auto& deps = all.deps();
  auto output = co_await deps.output(is.id);
  Environment environment;
  KJ_IF_MAYBE (make, deps.environment) {
    environment = (*make)(is.id, is.environment);
  } else {
    environment = KJ_MAP(e, is.environment) {
      return kj::str(e);
    };
  }
  co_return co_await deps.process1.spawn(spawnRequest(is, kj::mv(environment), output.get()));
}

// Whatever was decided meanwhile, a child that came to be has to be taken notice of: no turn here.
kj::Promise<void> Service::spawn() {
  early = nullptr;
  kj::Maybe<kj::Exception> broken;
  auto started = co_await askForChild().then(
      [](Process1::Started s) -> kj::Maybe<Process1::Started> { return kj::mv(s); },
      [&broken](kj::Exception&& e) -> kj::Maybe<Process1::Started> {
        broken = kj::mv(e);
        return nullptr;
      });
  KJ_IF_MAYBE (s, started) {
    pid = s->pid;
    auto before = kj::mv(early);
    early = nullptr;
    feed(ServiceInput::kStarted);
    KJ_IF_MAYBE (exit, before) {
      if (exit->pid == pid) processEnded(exit->status);
    }
  }
  KJ_IF_MAYBE (e, broken) {
    reason = kj::str("Cannot start ", is.command, ": ", messageOf(*e));
    feed(ServiceInput::kBroken);
  }
}

kj::Promise<void> Service::pause(uint64_t since, kj::Duration delay) {
  if (delay > 0 * kj::SECONDS) co_await all.deps().timer.afterDelay(delay);
  feedIf(since, ServiceInput::kDue);
}

void Service::pauseFor(kj::Duration delay) {
  busy(work, [this, since = turn, delay]() { return pause(since, delay); });
}

// --- running ---

void Service::attend() {
  idle(work);
  if (is.part != nullptr) busy(part, [this, since = turn]() { return runPart(since); });
  if (is.health == nullptr) return idle(health);
  busy(health, [this, since = turn]() { return watchHealth(since); });
}

kj::Promise<void> Service::runPart(uint64_t since) {
  auto why = co_await kj::evalNow([&]() { return KJ_ASSERT_NONNULL(is.part)(); })
                 .then([]() { return kj::str("it finished"); },
                       [](kj::Exception&& e) { return messageOf(e); });
  if (turn != since) co_return;
  reason = kj::str(is.command, " ended: ", why);
  feed(ServiceInput::kExited);
}

kj::Promise<void> Service::watchHealth(uint64_t since) {
  auto& deps = all.deps();
  auto& check = KJ_ASSERT_NONNULL(is.health);
  Backoff starting(
      {.first = check.starting.orDefault(check.period), .longest = check.period, .growth = 1.5});
  bool wasGood = false;
  co_await deps.timer.afterDelay(check.delay);
  while (turn == since) {
    auto problem = co_await checkOnce(check, deps.timer);
    if (turn != since) co_return;
    bool good = problem == nullptr;
    auto words = kj::mv(problem).orDefault(kj::String());
    if (record.setHealth(good, words, deps.clock.now())) {
      tell(good ? kj::str("Health check successful") : kj::str("Health check failed: ", words));
    }
    wasGood = wasGood || good;
    co_await deps.timer.afterDelay(wasGood ? check.period : starting.next());
  }
}

void Service::exited(Process1::Exit exit) {
  if (pid == exit.pid) {
    processEnded(exit.status);
  } else {
    early = kj::mv(exit);
  }
}

uint64_t Service::countMemoryKills() {
  KJ_IF_MAYBE (count, all.deps().memoryKills) {
    if (is.part == nullptr && !self) return (*count)(is.cgroup);
  }
  return memoryKills;
}

void Service::processEnded(int status) {
  auto kills = countMemoryKills();
  kj::Maybe<uint64_t> outOfMemory;
  if (kills > memoryKills) outOfMemory = is.memoryMax;
  memoryKills = kills;
  reason = kj::str("Process (PID ", pid, ") ", describeExit(status, outOfMemory));
  feed(ServiceInput::kExited);
}

// --- what the predecessor left ---

rpc::ServiceState Service::restore() {
  struct Left {
    ServiceRecord record;
    bool start;
    Due due;
    uint64_t memoryKills;
  };
  auto left = held().take([](rpc::HeldService::Reader in) {
    Left result{
        {}, in.getStart(), {in.getRestart(), in.getSignals(), in.getTo()}, in.getMemoryKills()};
    result.record.restore(in.getShown());
    return result;
  });
  KJ_IF_MAYBE (l, left) {
    record = kj::mv(l->record);
    again = l->start;
    due = l->due;
    memoryKills = l->memoryKills;
  } else {
    memoryKills = countMemoryKills();
  }
  return record.state();
}

void Service::takeUp(kj::ArrayPtr<const Process1::Survivor> survivors) {
  takeUpRecord(survivors);
  if (due.restart || due.signals != 0)
    actOnDue();  // who asked for it was answered by another brain
}

void Service::takeUpRecord(kj::ArrayPtr<const Process1::Survivor> survivors) {
  int survivor = 0;
  for (auto& s : survivors) {
    if (s.slot == is.id) survivor = s.pid;
  }
  auto before = restore();
  if (survivor != 0) return adopt(survivor, before);
  record.forgetHealth();  // of what is gone
  using St = rpc::ServiceState;
  if (is.part != nullptr && before == St::RUNNING) before = St::WAITING;
  // Of a start or a restart the first half is over.
  if (again && before != St::RUNNING) before = St::WAITING;
  switch (before) {
    case St::RUNNING:
      // Its exit may still be on its way; the pause lets that be acknowledged first.
      phase = ServicePhase::kPausing;
      again = false;
      ended();
      tell(kj::str("Process ended while machined was away",
                   countMemoryKills() > memoryKills ? " (killed: out of memory)" : "",
                   "; restarting"));
      memoryKills = countMemoryKills();
      return pauseFor(100 * kj::MILLISECONDS);
    case St::PREPARING:
    case St::WAITING:
      again = false;
      return feed(ServiceInput::kStart);
    case St::STOPPING:
      phase = ServicePhase::kFinished;
      ended();
      return tell("Service stopped while machined was away");
    case St::FINISHED:
      phase = ServicePhase::kFinished;
      return;
    case St::FAILED:
      phase = ServicePhase::kFailed;
      return;
    default:
      return tell("Service loaded");
  }
}

void Service::adopt(int survivor, rpc::ServiceState before) {
  pid = survivor;
  phase = ServicePhase::kRunning;
  ++turn;
  startedAt = all.deps().timer.now();
  tell(kj::str("Adopted running process (PID ", pid, ") after a restart of machined"));
  attend();
  bool startAgain = again;
  again = false;
  if (before != rpc::ServiceState::STOPPING) return;
  again = startAgain;
  feed(ServiceInput::kStop);
}

void Service::beSelf() {
  self = true;
  phase = ServicePhase::kRunning;
  pid = getpid();
  restore();
  again = false;
  due = {};  // it has been started again, as whatever was due would have done
  tell(kj::str("Started ", is.id, " (PID ", pid, ")"));
}

}  // namespace talos::machined
