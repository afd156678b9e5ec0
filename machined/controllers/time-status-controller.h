// v1alpha1.TimeStatusController: runtime/TimeStatuses[node], and what machine.time of the config
// asks for, told to the service timed.
//
// Synchronised is a machine whose service timed is healthy, and one that leaves its clock to others
// (machine.time.disabled, or a container): nothing is to wait there. A machine that fetches its
// config by https asks the default servers until it has one.
#pragma once

#include "machined/controllers/machine-config-reader.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class TimeStatusController final : public Controller {
 public:
  // What the service sees. Whoever changes it pokes this controller.
  struct Seen {
    uint64_t steps = 0;  // of this brain
    kj::String server, offset, problem;
  };
  struct World {
    bool container = false;  // the clock is the host's
    // The config comes by https: a clock that is wrong would find its server's certificate wrong.
    bool beforeConfig = false;
    kj::Function<kj::Maybe<MachineConfigView>(Store&)> readConfig = storedMachineConfig;
    kj::Function<void(kj::Array<kj::String> servers)> keepTime;
    kj::Function<void(kj::StringPtr why)> leaveAlone;
    kj::Function<Seen()> seen;
  };
  explicit TimeStatusController(World world) : world(kj::mv(world)) {}

  kj::StringPtr name() const override { return "v1alpha1.TimeStatusController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  World world;
  kj::Maybe<uint64_t> stepsBefore;  // of earlier brains: the epoch goes on
};

}  // namespace talos::machined
