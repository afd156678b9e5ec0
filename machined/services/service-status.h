// The status of one service: its phase, its process, its pending requests, its events and its
// health. Users, other services and the next brain see it.
//
//   written by       what
//   ServiceActions   phase, PID, health; an event for each step
//   ServiceRunner    `preparing`, memoryKills; events of a preparation
//   Service          startWhenDown, `due`; in a new brain also what its predecessor left
//
// Each event is announced at once, and process 1 is then given the whole status ("service/<id>"),
// in the place of the previous one. A brain that crashes before process 1 has it leaves the status
// of the event before; so the process may be one step further than the status (service-adoption.h).
// A change of requests has no event: kept() resolves when process 1 has it, and its caller answers
// the request only then.
#pragma once

#include "machined/process1/value-in-memory-file.h"
#include "machined/services/service-lifecycle.h"
#include "machined/services/service-record.h"
#include "machined/services/service-work.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

// Requests that were answered and are carried out 100 ms later, by this brain or the next. A signal
// that is due twice is sent once, as the kernel does with pending signals.
struct DueRequests {
  bool restart = false;
  uint64_t signals = 0;  // bit n-1: signal n
  int to = 0;            // PID of the process that the signals are for

  bool empty() const { return !restart && signals == 0; }
  // Drops the signals for an earlier process.
  void addSignal(int number, int pid);
  // Returns the due signals, in ascending order; none if they are for another process.
  kj::Vector<int> signalsFor(int pid) const;
};

class ServiceStatus {
 public:
  ServiceStatus(ServiceSet& all, const ServiceDefinition& definition)
      : all(all), definition(definition) {}
  KJ_DISALLOW_COPY_AND_MOVE(ServiceStatus);

  int pid = 0;                 // 0: no process
  bool preparing = false;      // the work before a start runs
  bool startWhenDown = false;  // start it as soon as it has stopped
  DueRequests due;
  uint64_t memoryKills = 0;  // number of its cgroup's kills that were reported

  // Takes the predecessor's status, but not its phase, which is never that of a new brain. Returns
  // false, without a change, if the predecessor left nothing.
  bool restore();

  ServicePhase phase() const { return current; }
  // The number of phases that were entered. Work of a phase remembers it: its results count only in
  // the same turn.
  uint64_t turn() const { return turns; }
  void enter(ServicePhase next);
  // Makes the service unknown to the next brain: process 1 drops the status. No phase follows.
  void unload(kj::StringPtr message);
  bool isUnloaded() const { return unloaded; }

  bool isUp() const;
  bool isDown() const { return machined::isDown(current); }
  // Returns true if the environment is made, and the process may not exist yet.
  bool isBeingStarted() const;
  bool cannotBe() const { return current == ServicePhase::kFailed || unloaded; }
  // Returns the state of the newest event.
  rpc::ServiceState lastState() const { return record.state(); }
  kj::StringPtr lastMessage() const { return record.lastMessage(); }
  void fill(rpc::Service::Builder out) const;

  void addEvent(kj::StringPtr message);
  // Returns a function that adds events for as long as this turn lasts.
  kj::Function<void(kj::StringPtr)> eventsOf(uint64_t turn);
  // Records the result of a health check; a change is an event.
  void setHealth(kj::Maybe<kj::String> problem);
  void forgetHealth() { record.forgetHealth(); }
  // Resolves when process 1 has the present status.
  kj::Promise<void> kept();

 private:
  ServiceSet& all;
  const ServiceDefinition& definition;
  ServicePhase current = ServicePhase::kIdle;
  uint64_t turns = 0;
  bool unloaded = false;
  ServiceRecord record;

  Held<rpc::HeldService> held() const;
  rpc::ServiceState shownState() const;
  bool toBeStarted() const;
};

}  // namespace talos::machined
