#include "machined/services/service.h"

#include <unistd.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr auto kAnswerFirst = 100 * kj::MILLISECONDS;

}  // namespace

Service::Service(ServiceSet& all, ServiceDefinition loaded)
    : definition(kj::mv(loaded)),
      status(all, definition),
      runner(all, definition, status),
      all(all),
      actions(all, *this, definition, status, runner) {}

void Service::recover(kj::ArrayPtr<const Process1::Survivor> survivors) {
  int survivor = 0;
  for (auto& s : survivors) {
    if (s.slot == id()) survivor = s.pid;
  }
  if (!status.restore()) runner.markMemoryKillsReported();
  if (!runner.isContainer()) status.pid = 0;
  auto plan = planAdoption({.state = status.lastState(),
                            .startWhenDown = status.startWhenDown,
                            .hasProcess = survivor != 0,
                            .isContainer = runner.isContainer(),
                            .isPart = definition.part != nullptr});
  status.startWhenDown = plan.startWhenDown;
  actions.adopt(plan.action, survivor);
  if (plan.stop) actions.feed(ServiceInput::kStop);
  if (!status.due.empty()) actOnDue();  // another brain has answered the request
}

void Service::markAsSelf() {
  status.restore();
  status.startWhenDown = false;
  status.due = {};  // it was started again, which is what a due request would have done
  status.enter(ServicePhase::kRunning);
  status.pid = getpid();
  runner.beSelf();
  status.addEvent(kj::str("Started ", id(), " (PID ", status.pid, ")"));
}

void Service::start() {
  status.startWhenDown = shown(status.phase()) == rpc::ServiceState::STOPPING;
  actions.feed(ServiceInput::kStart);
}

// Delays the request: the caller may depend on this very service, and the answer must be sent
// first.
kj::Promise<void> Service::whenAnswered() {
  auto later = all.deps().timer.afterDelay(kAnswerFirst);
  all.tasks().add(later.then([service = kj::addRef(*this)]() mutable { service->actOnDue(); }));
  return status.kept();
}

// Sends the due signals, then drops them from the held state. Process 1 gets both in this order. If
// the brain crashes in between, its successor finds the signal still held and sends it again, so a
// signal is never lost.
void Service::actOnDue() {
  if (status.isUnloaded()) return;
  auto now = status.due;
  for (auto number : now.signalsFor(status.pid)) all.tasks().add(runner.signal(number));
  status.due = {};
  if (now.restart) restartNow();
  all.tasks().add(status.kept());
}

kj::Promise<void> Service::restart() {
  if (definition.carriesApi) {
    status.due.restart = true;
    return whenAnswered();
  }
  restartNow();
  return status.kept();
}

void Service::restartNow() {
  if (all.closed() || status.isUnloaded()) return;
  status.startWhenDown = true;
  actions.feed(ServiceInput::kStop);
  if (status.isDown()) start();
}

kj::Promise<void> Service::stop() {
  auto reference = kj::addRef(*this);
  status.startWhenDown = false;
  status.due = {};
  actions.feed(ServiceInput::kStop);
  auto& timer = all.deps().timer;
  auto deadline = timer.now() + ServiceActions::kGrace + ServiceActions::kGrace;
  while (!status.isDown()) {
    if (timer.now() >= deadline) {
      fail(ErrorKind::kDeadlineExceeded,
           status.phase() == ServicePhase::kKilling
               ? kj::str("service \"", id(), "\" (PID ", status.pid,
                         ") has not exited within 10 s after SIGKILL")
               : kj::str("service \"", id(),
                         "\" has not stopped within 20 s: ", status.lastMessage()));
    }
    co_await all.change().exclusiveJoin(timer.atTime(deadline));
  }
  co_await status.kept();
}

kj::Promise<void> Service::signal(int number) {
  if (definition.part != nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("service \"", id(), "\" has no process of its own; use restart"));
  }
  if (status.pid == 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str("service \"", id(), "\" is not running"));
  }
  if (definition.carriesApi) {
    status.due.addSignal(number, status.pid);
    return whenAnswered();
  }
  return runner.signal(number).then(
      [service = kj::addRef(*this)]() mutable { return service->status.kept(); });
}

}  // namespace talos::machined
