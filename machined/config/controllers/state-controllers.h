// The controllers whose inputs come from the brain itself: services and the state of the machine.
#pragma once

#include <kj/time.h>
#include <kj/vector.h>

#include "machined/logs/event-ring.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

// v1alpha1.ServiceController: publishes runtime/Services from the events of the services.
//
// Each running service has a resource, and no other service. A service that is being stopped counts
// as running until it has exited, even if it was still starting: cleanup waits for its exit.
// `healthy` is the supervisor's "up": the last check was good, or there is no check. Talos 0.9
// shows a service without a check as unhealthy for ever, and its dependents wait for ever.
class ServiceController final : public Controller {
 public:
  // `isUp` returns the supervisor's answer for a service ID. The controller may be made after the
  // services, because it also reads the earlier events in the ring.
  ServiceController(Events& events, kj::Function<bool(kj::StringPtr)> isUp);
  ~ServiceController() noexcept(false);

  // Returns true if the service is being stopped, which is no problem. This is not a field of the
  // spec, because the spec's fields are a contract with scripts, only one reader in this process
  // needs it, and each change of the spec wakes that reader.
  bool isStopping(kj::StringPtr id) const;

  kj::StringPtr name() const override { return "v1alpha1.ServiceController"; }
  kj::Array<Input> inputs() const override { return nullptr; }
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;
  void wakeBy(kj::Function<void()> wake) override;

 private:
  struct States;
  kj::Own<States> states;
  kj::Function<bool(kj::StringPtr)> isUp;
};

// runtime.MachineStatusController: publishes runtime/MachineStatuses[machine], the readiness of the
// machine with its problems.
//
// Ready: it runs, has no problem, and every running service is healthy. A service that is being
// stopped or restarted on request is no problem.
class MachineStatusController final : public Controller {
 public:
  struct State {
    kj::String stage;  // as Machine.status() names it: booting, running, failed …
    kj::Vector<kj::String> problems;
    kj::Maybe<kj::Date> revertsAt = nullptr;  // end of a config's trial
  };
  // A change of `state` must poke this controller.
  MachineStatusController(kj::Function<State()> state,
                          kj::Function<bool(kj::StringPtr service)> isStopping)
      : state(kj::mv(state)), isStopping(kj::mv(isStopping)) {}

  kj::StringPtr name() const override { return "runtime.MachineStatusController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  kj::Function<State()> state;
  kj::Function<bool(kj::StringPtr service)> isStopping;
  kj::Maybe<kj::Date> shown;  // revertsAt, which is computed from two clocks each time
};

}  // namespace talos::machined
