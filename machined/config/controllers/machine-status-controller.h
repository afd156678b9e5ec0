// runtime.MachineStatusController: publishes runtime/MachineStatuses[machine], the readiness of the
// machine with its problems.
//
// Ready: it runs, has no problem, and every running service is healthy. A service that is being
// stopped or restarted on request is no problem.
#pragma once

#include <kj/time.h>
#include <kj/vector.h>

#include "machined/resources/controller-runtime.h"

namespace talos::machined {

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
