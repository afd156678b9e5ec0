#include "machined/services/service.h"

#include <capnp/message.h>
#include <ctype.h>
#include <kj/debug.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/node-messages.h"

namespace talos::machined {
namespace {

constexpr auto kGrace = 10 * kj::SECONDS;
constexpr auto kRecheck = 1 * kj::SECONDS;
constexpr auto kAnswerFirst = 100 * kj::MILLISECONDS;

// A period that starts with the first call.
class Allowance {
 public:
  explicit Allowance(kj::Duration length) : length(length) {}
  kj::Duration left(kj::TimePoint now) {
    auto until = end.orDefault(now + length);
    end = until;
    return kj::max(0 * kj::SECONDS, until - now);
  }

 private:
  kj::Duration length;
  kj::Maybe<kj::TimePoint> end;
};

kj::String toBeUp(kj::StringPtr service) {
  return kj::str("service \"", service, "\" to be \"up\"");
}

kj::String seconds(kj::Duration d) {
  auto tenths = d / (100 * kj::MILLISECONDS);
  return kj::str(tenths / 10, ".", tenths % 10, " s");
}

}  // namespace

Service::Service(ServiceSet& all, ServiceDefinition definition) : all(all), is(kj::mv(definition)) {
  KJ_IF_MAYBE (b, is.body) {
    body = kj::mv(*b);
  } else {
    auto process = kj::heap<ChildBody>(all.deps().process1, is);
    child = *process;
    body = kj::mv(process);
  }
}

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
  out.setUptime(nanosecondsOf(all.deps().timer.now()));
  out.setChecked(is.health != nullptr);
  KJ_IF_MAYBE (switches, all.deps().switches) {
    out.setLogLevel(switches->level(is.id));
    out.setKeepsCores(switches->keepsCores(is.id));
  }
}

void Service::addEvent(rpc::ServiceState state, kj::StringPtr message) {
  auto& deps = all.deps();
  record.add(state, message, deps.clock.now(), deps.timer.now());
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

// Returns true if a start was requested, and there is no process yet that a successor could find.
bool Service::toBeStarted() const {
  return again || phase == ServicePhase::kWaiting || phase == ServicePhase::kPreparing ||
         phase == ServicePhase::kStarting;
}

kj::Promise<void> Service::kept() {
  if (unloaded) return kj::READY_NOW;  // no state is left of it on purpose
  return held().hold([this](rpc::HeldService::Builder out) {
    fill(out.initShown());
    out.setStart(toBeStarted());
    out.setRestart(due.restart);
    out.setSignals(due.signals);
    out.setTo(due.to);
    out.setMemoryKills(memoryKills);
  });
}

// --- the table, and its actions ---

// Replaces the promise in `slot`. The caller may run inside the old promise, so that is destroyed
// in the next turn of the event loop, and our reference to the Service after it. Late inputs of the
// old work are ignored: feedIf() compares `turn`.
void Service::replace(kj::Promise<void>& slot, kj::Promise<void> next) {
  struct Old {
    kj::Own<Service> service;
    kj::Promise<void> work;
  };
  all.tasks().add(kj::evalLater([old = Old{kj::addRef(*this), kj::mv(slot)}]() {}));
  slot = kj::mv(next);
}

// Puts new work into `slot`. The work may take a step at once, and that step may replace the work.
// So it starts in the next turn of the event loop, when it is in its slot.
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
      // The only such step: a stop during a start or a search. The start or search continues, so
      // that there is a process to end.
      return addEvent(
          kj::str("Stopping as soon as ", is.command, sought ? " is found" : " has started"));
    case ServiceAction::kAwait:
      policy = RestartPolicy();
      reason = nullptr;
      return busy(work, [this, since = turn]() { return awaitConditions(since); });
    case ServiceAction::kPrepare:
      addEvent("Running pre state");
      return busy(work, [this, since = turn]() { return prepare(since); });
    case ServiceAction::kSpawn:
      if (phase == ServicePhase::kStarting) addEvent("Creating service runner");
      if (is.part != nullptr) return feedLater(ServiceInput::kStarted);
      return busy(work, [this]() { return spawn(); });
    case ServiceAction::kAttend:
      startedAt = deps.timer.now();
      hasRun = true;
      if (!adopted) record.forgetHealth();
      addEvent(startedMessage());
      return attend();
    case ServiceAction::kPause: {
      auto delay = policy.next(deps.timer.now() - startedAt, deps.random());
      ended();
      addEvent(delay == 0 * kj::SECONDS ? kj::str(reason, "; restarting")
                                        : kj::str(reason, "; restarting in ", seconds(delay)));
      reason = nullptr;
      return pauseFor(delay);
    }
    case ServiceAction::kTerminate:
      idle(health);
      if (is.part != nullptr) {
        addEvent(kj::str("Stopping ", is.command));
        idle(part);
        return feedLater(ServiceInput::kExited);
      }
      addEvent(kj::str("Sending SIGTERM to ", is.command, " (PID ", pid, ")"));
      return busy(work, [this, since = turn]() { return terminate(since); });
    case ServiceAction::kKill:
      addEvent(kj::str("Sending SIGKILL to ", is.command, " (PID ", pid,
                       "), which has not exited within 10 s"));
      all.tasks().add(signalNow(SIGKILL));
      return idle(work);
    case ServiceAction::kConclude:
      ended();
      addEvent(reason == nullptr ? kj::str(messages::kServiceStopped)
                                 : kj::str(messages::kServiceStopped, ": ", reason));
      reason = nullptr;
      idle(work);
      if (again && !all.closed()) start();
      return;
    case ServiceAction::kGiveUp:
      ended();
      addEvent(reason);
      return idle(work);
  }
}

kj::String Service::startedMessage() const {
  if (is.part != nullptr) return kj::str("Started ", is.command);
  if (!adopted) return body->startedMessage(pid);
  return kj::str("Adopted running ", body->noun(), " (PID ", pid, ") after a restart of machined");
}

void Service::ended() {
  pid = 0;
  record.forgetHealth();
  idle(health);
  idle(part);
  idle(end);
}

// --- requests ---

void Service::start() {
  again = shown(phase) == rpc::ServiceState::STOPPING;
  feed(ServiceInput::kStart);
}

// Delays the request: the caller may depend on this very service, and the answer must be sent
// first.
kj::Promise<void> Service::whenAnswered() {
  auto later = all.deps().timer.afterDelay(kAnswerFirst);
  all.tasks().add(later.then([service = kj::addRef(*this)]() mutable { service->actOnDue(); }));
  return kept();
}

// Sends the due signals, then drops them from the held state. Process 1 gets both in this order. If
// the brain crashes in between, its successor finds the signal still held and sends it again, so a
// signal is never lost.
void Service::actOnDue() {
  if (unloaded) return;
  auto now = due;
  if (pid == now.to) {
    for (int number = 1; number <= 64; ++number) {
      if (now.signals >> (number - 1) & 1) all.tasks().add(signalNow(number));
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
      fail(ErrorKind::kDeadlineExceeded,
           phase == ServicePhase::kKilling
               ? kj::str("service \"", is.id, "\" (PID ", pid,
                         ") has not exited within 10 s after SIGKILL")
               : kj::str("service \"", is.id,
                         "\" has not stopped within 20 s: ", record.lastMessage()));
    }
    co_await all.change().exclusiveJoin(timer.atTime(deadline));
  }
  co_await kept();
}

void Service::unload(kj::StringPtr problem) {
  KJ_REQUIRE(is.part != nullptr, is.id);
  phase = ServicePhase::kFinished;
  ++turn;
  unloaded = true;
  ended();
  idle(work);
  addEvent(kj::str("Service unloaded: ", problem));
  // A successor that loads the part starts it, because the part was not stopped.
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
  return signalNow(number).then(
      [service = kj::addRef(*this)]() mutable { return service->kept(); });
}

kj::Promise<void> Service::signalNow(int number) {
  if (!self) return body->signal(number);
  KJ_SYSCALL(::kill(pid, number));
  return kj::READY_NOW;
}

// --- waiting and starting ---

kj::Vector<kj::String> Service::unmetConditions() {
  kj::Vector<kj::String> missing;
  for (auto& condition : is.conditions) {
    if (!condition->met()) missing.add(condition->description());
  }
  for (auto& other : is.dependsOn) {
    if (!all.isUp(other)) missing.add(toBeUp(other));
  }
  return missing;
}

kj::Vector<kj::String> Service::ahead() {
  kj::Vector<kj::String> those;
  for (auto& other : is.givesWayTo) {
    if (all.isStarting(other)) {
      those.add(kj::str(toBeUp(other), ", for at most ", is.givesWayFor / kj::SECONDS, " s"));
    }
  }
  return those;
}

kj::Vector<kj::String> Service::dispensable() {
  kj::Vector<kj::String> those;
  if (hasRun) return those;
  for (auto& other : is.waitsFor) {
    if (all.isStarting(other)) those.add(toBeUp(other));
  }
  return those;
}

kj::Promise<void> Service::awaitConditions(uint64_t since) {
  auto& timer = all.deps().timer;
  Allowance waiting(is.waitsAtMost), givingWay(is.givesWayFor);
  kj::String shownText;
  bool doesWithout = false;
  for (;;) {
    auto missing = unmetConditions();
    auto recheck = kRecheck;
    if (auto more = dispensable(); !doesWithout && !more.empty()) {
      auto left = missing.empty() ? waiting.left(timer.now()) : recheck;
      recheck = kj::min(recheck, left);
      doesWithout = left == 0 * kj::SECONDS;
      if (doesWithout) {
        addEvent(kj::str("Starting without waiting any longer for ", kj::strArray(more, ", ")));
      } else {
        for (auto& other : more) missing.add(kj::mv(other));
      }
    }
    if (missing.empty()) {
      auto left = givingWay.left(timer.now());
      if (left > 0 * kj::SECONDS) missing = ahead();
      recheck = kj::min(kRecheck, left);
    }
    if (missing.empty()) break;
    auto text = kj::str("Waiting for ", kj::strArray(missing, ", "));
    if (text != shownText) {
      addEvent(text);
      shownText = kj::mv(text);
    }
    co_await all.change().exclusiveJoin(timer.afterDelay(recheck));
  }
  feedIf(since, ServiceInput::kReady);
}

kj::Promise<void> Service::prepare(uint64_t since) {
  auto begin = [this]() { return prepareBody(); };
  auto broken = co_await kj::evalNow(begin).then(
      []() -> kj::Maybe<kj::Exception> { return nullptr; },
      [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
  KJ_IF_MAYBE (e, broken) {
    if (turn == since) reason = kj::str("Pre state failed: ", messageOf(*e));
    feedIf(since, ServiceInput::kBroken);
  } else {
    feedIf(since, ServiceInput::kPrepared);
  }
}

// Adds events of the current step, for as long as the step lasts.
kj::Function<void(kj::StringPtr)> Service::noteFor(uint64_t since) {
  return [this, since](kj::StringPtr text) {
    if (turn == since) addEvent(text);
  };
}

kj::Promise<void> Service::prepareBody() {
  auto since = turn;
  preparing = true;
  KJ_DEFER(preparing = false);
  KJ_IF_MAYBE (first, is.prepare) co_await (*first)(noteFor(since));
  co_await body->prepare(noteFor(since));
  KJ_IF_MAYBE (last, is.prepareLast) co_await (*last)(noteFor(since));
}

// Prepares a restart, as a condition that held at the first start may no longer hold. Returns false
// if the service was stopped meanwhile.
kj::Promise<bool> Service::prepareAgain() {
  auto stopped = [this]() -> kj::Promise<void> {
    while (phase == ServicePhase::kRestarting) co_await all.change();
  };
  co_await prepareBody().exclusiveJoin(stopped());
  co_return phase != ServicePhase::kDooming;
}

kj::Promise<ServiceBody::Started> Service::startBody() {
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
  co_return co_await body->start(kj::mv(environment), output.get());
}

// A stop may be requested while the process is being started. The process exists all the same and
// must be recorded, so its inputs count in any turn.
kj::Promise<void> Service::spawn() {
  kj::Maybe<kj::Exception> broken;
  auto make = [this]() -> kj::Promise<kj::Maybe<ServiceBody::Started>> {
    bool prepares = child == nullptr || is.prepare != nullptr || is.prepareLast != nullptr;
    bool again = prepares && phase == ServicePhase::kRestarting;
    if (again && !co_await prepareAgain()) co_return nullptr;
    co_return co_await startBody();
  };
  auto started = co_await kj::evalNow(make).catch_(
      [&broken](kj::Exception&& e) -> kj::Maybe<ServiceBody::Started> {
        broken = kj::mv(e);
        return nullptr;
      });
  KJ_IF_MAYBE (s, started) co_return has(*s);
  KJ_IF_MAYBE (e, broken) {
    reason = kj::str("Cannot start ", is.command, ": ", messageOf(*e));
  }
  // A stop came during the start, and the runtime reported a failure, but may have started the
  // container all the same. So the container is looked for.
  if (child == nullptr && phase == ServicePhase::kDooming) co_return co_await seek();
  startedAt = all.deps().timer.now();  // it did not run at all
  feed(child == nullptr ? ServiceInput::kNotYet : ServiceInput::kBroken);
}

void Service::has(ServiceBody::Started started) {
  pid = started.pid;
  adopted = started.adopted;
  busy(end, [this]() { return watchEnd(); });
  feed(ServiceInput::kStarted);
}

kj::Promise<void> Service::pause(uint64_t since, kj::Duration delay) {
  if (delay > 0 * kj::SECONDS) co_await all.deps().timer.afterDelay(delay);
  feedIf(since, ServiceInput::kDue);
}

void Service::pauseFor(kj::Duration delay) {
  busy(work, [this, since = turn, delay]() { return pause(since, delay); });
}

// containerd may be away when the signal is sent, and delivers it when it is back. So the grace
// time starts after the delivery.
kj::Promise<void> Service::terminate(uint64_t since) {
  co_await signalNow(SIGTERM).catch_([this](kj::Exception&& e) { all.failed(kj::mv(e)); });
  co_await all.deps().timer.afterDelay(kGrace);
  feedIf(since, ServiceInput::kDue);
}

// --- running ---

void Service::attend() {
  idle(work);
  if (is.part != nullptr) busy(part, [this, since = turn]() { return runPart(since); });
  if (is.health == nullptr) return idle(health);
  busy(health, [this, since = turn]() { return watchHealth(since); });
}

kj::Promise<void> Service::runPart(uint64_t since) {
  auto problem = co_await kj::evalNow([&]() { return KJ_ASSERT_NONNULL(is.part)(); })
                     .then([]() { return kj::str("it finished"); },
                           [](kj::Exception&& e) { return messageOf(e); });
  if (turn != since) co_return;
  reason = kj::str(is.command, " ended: ", problem);
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
    auto text = kj::mv(problem).orDefault(kj::String());
    if (record.setHealth(good, text, deps.clock.now())) {
      addEvent(good ? kj::str("Health check successful") : kj::str("Health check failed: ", text));
    }
    wasGood = wasGood || good;
    co_await deps.timer.afterDelay(wasGood ? check.period : starting.next());
  }
}

void Service::exited(Process1::Exit exit) {
  KJ_IF_MAYBE (c, child) c->exited(kj::mv(exit));
}

uint64_t Service::countMemoryKills() {
  KJ_IF_MAYBE (count, all.deps().memoryKills) {
    if (is.part == nullptr && !self) return (*count)(is.cgroup);
  }
  return memoryKills;
}

kj::String Service::describeEnd(kj::Maybe<int> status) {
  auto noun = kj::str(body->noun());
  noun[0] = static_cast<char>(toupper(noun[0]));
  auto kills = countMemoryKills();
  kj::Maybe<uint64_t> outOfMemory;
  if (kills > memoryKills) outOfMemory = is.memoryMax;
  KJ_IF_MAYBE (s, status) {
    return kj::str(noun, " (PID ", pid, ") ", describeExit(*s, outOfMemory));
  }
  return kj::str(noun, " (PID ", pid, ") is gone");
}

// Returns empty if the crash left no report.
kj::String Service::crashText() {
  KJ_IF_MAYBE (keep, all.deps().crashReport) {
    KJ_IF_MAYBE (id, (*keep)(is.id)) return kj::str(messages::kCrashReport, *id);
  }
  return nullptr;
}

kj::Promise<void> Service::watchEnd() {
  auto status = co_await body->ended();
  auto crash = crashText();
  reason = kj::str(describeEnd(status), crash);
  co_await body->remove().catch_([this](kj::Exception&& e) { all.failed(kj::mv(e)); });
  memoryKills = countMemoryKills();  // a container's cgroup is removed with it
  feed(ServiceInput::kExited);
}

}  // namespace talos::machined
