// Restores the state of a service from its predecessor, in the previous brain (service.h).
#include <ctype.h>
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/node-messages.h"
#include "machined/services/service.h"

namespace talos::machined {

rpc::ServiceState Service::restore() {
  struct Left {
    ServiceRecord record;
    bool start;
    Due due;
    uint64_t memoryKills;
    int pid;
  };
  auto left = held().take([](rpc::HeldService::Reader in) {
    Left result{.record = {},
                .start = in.getStart(),
                .due = {in.getRestart(), in.getSignals(), in.getTo()},
                .memoryKills = in.getMemoryKills(),
                .pid = in.getShown().getPid()};
    result.record.restore(in.getShown());
    return result;
  });
  KJ_IF_MAYBE (l, left) {
    record = kj::mv(l->record);
    again = l->start;
    due = l->due;
    memoryKills = l->memoryKills;
    if (child == nullptr) pid = l->pid;
  } else {
    memoryKills = countMemoryKills();
  }
  return record.state();
}

void Service::recover(kj::ArrayPtr<const Process1::Survivor> survivors) {
  restoreRecord(survivors);
  if (due.restart || due.signals != 0) actOnDue();  // another brain has answered the request
}

void Service::restoreRecord(kj::ArrayPtr<const Process1::Survivor> survivors) {
  int survivor = 0;
  for (auto& s : survivors) {
    if (s.slot == is.id) survivor = s.pid;
  }
  auto before = restore();
  if (survivor != 0) return adopt(survivor, before);
  if (child == nullptr) return adoptContainer(before);
  restoreEnded(before);
}

// No process of the service runs.
void Service::restoreEnded(rpc::ServiceState before) {
  record.forgetHealth();  // health of an exited process
  using St = rpc::ServiceState;
  if (is.part != nullptr && before == St::RUNNING) before = St::WAITING;
  auto crash = crashText();
  // The first half of a start or a restart is done.
  if (again && before != St::RUNNING) before = St::WAITING;
  switch (before) {
    case St::RUNNING:
      // The process may have ended before the previous brain, and its exit is still on its way. The
      // pause lets the exit be acknowledged before the next start.
      phase = ServicePhase::kPausing;
      again = false;
      ended();
      addEvent(kj::str("Process ended while machined was away",
                       countMemoryKills() > memoryKills ? " (killed: out of memory)" : "", crash,
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
      return addEvent(kj::str(messages::kServiceStopped, " while machined was away", crash));
    case St::FINISHED:
      phase = ServicePhase::kFinished;
      return;
    case St::FAILED:
      phase = ServicePhase::kFailed;
      return;
    default:
      return addEvent("Service loaded");
  }
}

void Service::adopt(int survivor, rpc::ServiceState before) {
  KJ_ASSERT_NONNULL(child).adopt(survivor);
  phase = ServicePhase::kSeeking;
  has({survivor, true});
  stopAsBefore(before);
}

// Only containerd, which may have been killed as well, knows if the container still runs.
void Service::adoptContainer(rpc::ServiceState before) {
  using St = rpc::ServiceState;
  if (before != St::RUNNING && before != St::STOPPING) return restoreEnded(before);
  phase = ServicePhase::kSeeking;
  ++turn;
  auto known = pid == 0 ? kj::String() : kj::str(" (PID ", pid, ")");
  addEvent(kj::str("Looking for ", is.command, known, " after a restart of machined"));
  reason = kj::str(is.command, " ended while machined was away");
  reason[0] = static_cast<char>(toupper(reason[0]));
  sought = true;
  busy(work, [this]() { return seek(); });
  stopAsBefore(before);
}

// Ends when this is known: then the service has a process, or nothing is left of it.
kj::Promise<void> Service::seek() {
  kj::Maybe<kj::Exception> broken;
  auto found = co_await body->find().catch_([&](kj::Exception&& e) -> kj::Maybe<int> {
    broken = kj::mv(e);
    return nullptr;
  });
  sought = false;
  KJ_IF_MAYBE (p, found) co_return has({*p, true});
  KJ_IF_MAYBE (e, broken) {
    reason = kj::str("Cannot look for ", is.command, ": ", messageOf(*e));
  } else {
    co_await body->remove().catch_([this](kj::Exception&& e) { all.failed(kj::mv(e)); });
  }
  feed(ServiceInput::kExited);
}

void Service::stopAsBefore(rpc::ServiceState before) {
  bool startAgain = again;
  again = false;
  if (before != rpc::ServiceState::STOPPING) return;
  again = startAgain;
  feed(ServiceInput::kStop);
}

void Service::markAsSelf() {
  self = true;
  phase = ServicePhase::kRunning;
  pid = getpid();
  restore();
  again = false;
  due = {};  // it was started again, which is what a due request would have done
  addEvent(kj::str("Started ", is.id, " (PID ", pid, ")"));
}

}  // namespace talos::machined
