// What the tasks of the sequences do on a real machine.
//
// The tasks that load, check and save the machine config are the keeper's (machined/config).
#pragma once

#include <kj/async-io.h>

#include "common/base/kernel-arguments.h"
#include "common/config/config.h"
#include "machined/boot/config-effects.h"
#include "machined/boot/machine-stage.h"
#include "machined/boot/sequences.h"
#include "machined/config/config-keeper.h"
#include "machined/modprobe/kernel-modules.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/services/supervisor.h"
#include "machined/storage/state-volume.h"
#include "machined/telemetry/event-ring.h"
#include "machined/telemetry/node-console.h"
#include "machined/time/kernel-clock.h"

namespace talos::machined {

class RealTasks final : public MachineTasks {
 public:
  struct World {
    const KernelArguments& arguments;
    Mode mode;
    Console& console;
    MachineStatus& status;
    Store& store;
    ControllerRuntime& controllers;
    Supervisor& supervisor;
    StateVolume& state;
    ConfigEffects& effects;
    Process1& process1;
    Events& events;
    UvLoop& uv;
    kj::Timer& timer;
    ConfigKeeper& config;
    KernelClock& clock;
  };
  explicit RealTasks(World world) : world(kj::mv(world)) {}

  kj::Promise<void> setupLogger() override;
  kj::Promise<void> raiseClock() override;
  kj::Promise<void> enforceKsppRequirements() override;
  kj::Promise<void> writeRequiredSysctls() override;
  kj::Promise<void> setupSystemDirectory() override;
  kj::Promise<void> loadNetworkModules() override;
  kj::Promise<void> loadDiskModules() override;
  kj::Promise<void> loadDeviceModules() override;
  kj::Promise<void> setResourceLimits() override;
  kj::Promise<void> createEtcNetworkFiles() override;
  kj::Promise<void> discoverNetwork() override;
  kj::Promise<void> mountState() override { return world.state.mount(); }
  kj::Promise<void> loadConfig() override;
  kj::Promise<void> setupNetwork() override;
  kj::Promise<void> validateConfig() override;
  kj::Promise<void> saveConfig() override;
  kj::Promise<void> setUserEnvVars() override { return world.effects.setUserEnvVars(); }
  kj::Promise<void> mountEphemeralPartition() override {
    return world.effects.mountEphemeralPartition();
  }
  kj::Promise<void> setupVarDirectory() override { return world.effects.setupVarDirectory(); }
  kj::Promise<void> mountOverlayFilesystems() override {
    return world.effects.mountOverlayFilesystems();
  }
  kj::Promise<void> writeUserFiles() override { return world.effects.writeUserFiles(); }
  kj::Promise<void> writeUserSysctls() override { return world.effects.writeUserSysctls(); }
  kj::Promise<void> startAllServices() override;
  kj::Promise<void> stopNetworkd() override;
  kj::Promise<void> stopAllServices() override;
  kj::Promise<void> unmountState() override { return world.state.unmount(); }
  kj::Promise<void> goDown(unsigned command) override;

 private:
  World world;

  bool waitsForOthers(kj::StringPtr id);
  kj::Promise<void> warnOnly(kj::Promise<void> promise);
  using LoadDrivers = void (*)(const Modules&, kj::Function<void(kj::StringPtr)>);
  kj::Promise<void> loadModules(LoadDrivers load, int niceness = 0);
  bool networkApplied(kj::String& waitingFor);
  bool addressed(kj::String& waitingFor);
};

}  // namespace talos::machined
