// runtime.WatchdogTimerController: has process 1 feed the watchdog of machine.watchdog, and writes
// the resources WatchdogTimerConfigs and WatchdogTimerStatuses, both with the ID timer. The status
// describes the device that is fed; it does not exist while no device is fed.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/watchdog.h"

namespace talos::machined {

class WatchdogTimerController final : public Controller {
 public:
  using Read = kj::Function<kj::Maybe<kj::Maybe<WantedWatchdog>>(Store&)>;  // nullptr: no config
  using Warn = kj::Function<void(kj::StringPtr)>;
  WatchdogTimerController(Watchdog& watchdog, Read read, Warn warn)
      : watchdog(watchdog), read(kj::mv(read)), warn(kj::mv(warn)) {}

  kj::StringPtr name() const override { return "runtime.WatchdogTimerController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Watchdog& watchdog;
  Read read;
  Warn warn;
  LastProblems last;

  void write(Store& store, kj::Maybe<const WantedWatchdog&> wanted);
};

}  // namespace talos::machined
