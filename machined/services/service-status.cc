#include "machined/services/service-status.h"

#include <capnp/message.h>

namespace talos::machined {

void DueRequests::addSignal(int number, int pid) {
  if (to != pid) signals = 0;
  signals |= 1ull << (number - 1);
  to = pid;
}

kj::Vector<int> DueRequests::signalsFor(int pid) const {
  kj::Vector<int> numbers;
  if (pid != to) return numbers;
  for (int number = 1; number <= 64; ++number) {
    if (signals >> (number - 1) & 1) numbers.add(number);
  }
  return numbers;
}

Held<rpc::HeldService> ServiceStatus::held() const {
  return {all.deps().process1, kj::str("service/", definition.id)};
}

bool ServiceStatus::restore() {
  struct Left {
    ServiceRecord record;
    bool start;
    DueRequests due;
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
    startWhenDown = l->start;
    due = l->due;
    memoryKills = l->memoryKills;
    pid = l->pid;
    return true;
  }
  return false;
}

void ServiceStatus::enter(ServicePhase next) {
  current = next;
  ++turns;
}

void ServiceStatus::unload(kj::StringPtr message) {
  unloaded = true;
  addEvent(message);
  // A successor that loads the part starts it, because the part was not stopped.
  all.tasks().add(held().drop());
}

bool ServiceStatus::isUp() const {
  if (current == ServicePhase::kFinished) return true;
  if (current != ServicePhase::kRunning) return false;
  return definition.health == nullptr || record.healthy();
}

bool ServiceStatus::isBeingStarted() const {
  return current == ServicePhase::kStarting || (current == ServicePhase::kRestarting && !preparing);
}

// Returns true if a start was requested, and there is no process yet that a successor could find.
bool ServiceStatus::toBeStarted() const {
  return startWhenDown || current == ServicePhase::kWaiting ||
         current == ServicePhase::kPreparing || current == ServicePhase::kStarting;
}

rpc::ServiceState ServiceStatus::shownState() const {
  bool preparesAgain = preparing && current == ServicePhase::kRestarting;
  return preparesAgain ? rpc::ServiceState::PREPARING : shown(current);
}

void ServiceStatus::fill(rpc::Service::Builder out) const {
  out.setId(definition.id);
  out.setPid(pid);
  record.fill(out);
  out.setUptime(nanosecondsOf(all.deps().timer.now()));
  out.setChecked(definition.health != nullptr);
  KJ_IF_MAYBE (switches, all.deps().switches) {
    out.setLogLevel(switches->level(definition.id));
    out.setKeepsCores(switches->keepsCores(definition.id));
  }
}

void ServiceStatus::addEvent(kj::StringPtr message) {
  auto& deps = all.deps();
  auto state = shownState();
  record.add(state, message, deps.clock.now(), deps.timer.now());
  capnp::MallocMessageBuilder scratch;
  auto event = scratch.initRoot<rpc::ServiceStateEvent>();
  event.setService(definition.id);
  event.setState(state);
  event.setMessage(message);
  record.fillHealth(event.initHealth());
  deps.announce(event.asReader());
  all.tasks().add(kept());
  all.changed();
}

kj::Function<void(kj::StringPtr)> ServiceStatus::eventsOf(uint64_t turn) {
  return [this, turn](kj::StringPtr message) {
    if (turns == turn) addEvent(message);
  };
}

void ServiceStatus::setHealth(kj::Maybe<kj::String> problem) {
  bool good = problem == nullptr;
  auto text = kj::mv(problem).orDefault(kj::String());
  if (!record.setHealth(good, text, all.deps().clock.now())) return;
  addEvent(good ? kj::str("Health check successful") : kj::str("Health check failed: ", text));
}

kj::Promise<void> ServiceStatus::kept() {
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

}  // namespace talos::machined
