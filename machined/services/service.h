// One service: its requests, and its first step in a new brain. Part of supervisor.h, which has the
// promises to users and is the only user of this class.
//
//   service-status.h     the phase, requests, events and health, as others see them and the next
//                        brain finds them; written by the other parts
//   service-lifecycle.h  the table of phases, and the pauses between restarts: pure
//   service-actions.h    the actions of the table
//   start-conditions.h   the wait before a start: pure
//   service-runner.h     the process, in one of its two forms (service-instance.h): a child
//                        (service-process.h) or a container (service-container.h)
//   service-health.h     health checks
//   service-adoption.h   the first step with a service that a predecessor has left, and the state
//                        that a crash leaves at each moment: pure
//   service-work.h       background work
//
// A request changes the status, or feeds an input into the table; ServiceActions does the rest. If
// the brain crashes before the promise of a request resolves, the request may be lost. After that,
// process 1 has carried it out, or holds it for the next brain.
#pragma once

#include "machined/services/service-actions.h"

namespace talos::machined {

class Service : public kj::Refcounted {
 public:
  Service(ServiceSet& all, ServiceDefinition loaded);
  KJ_DISALLOW_COPY_AND_MOVE(Service);

  // Restores the state that the predecessor left, and adopts its process, if any. Called once, at
  // first.
  void recover(kj::ArrayPtr<const Process1::Survivor> survivors);
  // Called instead of recover() if the service is this program.
  void markAsSelf();

  void start();
  // The methods with a promise resolve when process 1 knows of the request.
  kj::Promise<void> restart();
  kj::Promise<void> stop();
  void unload(kj::StringPtr problem) { actions.unload(problem); }
  kj::Promise<void> signal(int number);

  kj::StringPtr id() const { return definition.id; }

  // The parts that the supervisor uses directly.
  ServiceDefinition definition;
  ServiceStatus status;
  ServiceRunner runner;

 private:
  ServiceSet& all;
  ServiceActions actions;

  kj::Promise<void> whenAnswered();
  void actOnDue();
  void restartNow();
};

}  // namespace talos::machined
