// v1alpha1.TimeStatusController: writes runtime/TimeStatuses[node], and passes machine.time of the
// config to the service timed.
//
// A node is synchronised if its service timed is healthy, or if it leaves its clock to others
// (machine.time.disabled, or a container): then no service has to wait. Before there is a config, a
// node that fetches it by https uses the default servers.
#pragma once

#include "machined/config/controllers/machine-config-reader.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class TimeStatusController final : public Controller {
 public:
  // The state of the service. A change must poke this controller.
  struct Seen {
    uint64_t steps = 0;  // number of steps in this brain
    kj::String server, offset, problem;
  };
  struct Dependencies {
    bool container = false;  // the clock is the host's
    // The config is fetched by https: with a wrong clock the server's certificate would not be
    // valid.
    bool beforeConfig = false;
    ReadConfig readConfig;
    kj::Function<void(kj::Array<kj::String> servers)> keepTime;
    // How long the first starts of services wait for the time, at most; 0: the default.
    kj::Function<void(kj::Duration)> setBootTimeout;
    kj::Function<void(kj::StringPtr reason)> leaveAlone;
    kj::Function<Seen()> seen;
  };
  explicit TimeStatusController(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::StringPtr name() const override { return "v1alpha1.TimeStatusController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Dependencies deps;
  kj::Maybe<uint64_t> stepsBefore;  // steps of earlier brains: the epoch continues
};

}  // namespace talos::machined
