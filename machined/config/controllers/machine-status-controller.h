// runtime.MachineStatusController: runtime/MachineStatuses[machine], why a machine is or is not
// ready.
//
// Ready: it runs, nothing is wrong, and every service that runs is healthy. One that somebody stops
// or restarts is no problem: it does what it was told.
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
    kj::Maybe<kj::Date> revertsAt = nullptr;  // of a config on trial
  };
  // `state` is the brain's; whoever changes it pokes this controller.
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
  kj::Maybe<kj::Date> shown;  // revertsAt, which is computed anew from two clocks each time
};

}  // namespace talos::machined
