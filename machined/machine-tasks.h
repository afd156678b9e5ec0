// What the tasks of the sequences do on a real machine.
//
// The config lives in the store from the moment that it was checked (MachineConfigs/v1alpha1), so
// that the controllers derive everything else from it and a new brain finds it there.
#pragma once

#include <kj/async-io.h>

#include "common/config.h"
#include "common/kernel-arguments.h"
#include "common/uv.h"
#include "machined/console.h"
#include "machined/controllers/machine-config.h"
#include "machined/host/modules.h"
#include "machined/machine-status.h"
#include "machined/resources/controller.h"
#include "machined/sequences.h"
#include "machined/services/supervisor.h"
#include "machined/storage/state.h"
#include "machined/tasks/fetch.h"
#include "machined/telemetry/events.h"

namespace talos::machined {

class RealTasks final : public MachineTasks {
 public:
  struct World {
    const KernelArguments& arguments;
    Mode mode;
    Console& console;
    MachineStatus& status;
    Store& store;
    MachineConfigReader& configReader;
    ControllerRuntime& controllers;
    Supervisor& supervisor;
    StateVolume& state;
    Process1& process1;
    Events& events;
    UvLoop& uv;
    kj::Timer& timer;
    FetchWorld fetch;
  };
  explicit RealTasks(World world) : world(kj::mv(world)) {}

  kj::Promise<void> setupLogger() override;
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
  kj::Promise<void> startAllServices() override;
  kj::Promise<void> stopNetworkd() override;
  kj::Promise<void> stopAllServices() override;
  kj::Promise<void> unmountState() override { return world.state.unmount(); }
  kj::Promise<void> goDown(unsigned command) override;

 private:
  World world;

  kj::Maybe<kj::Array<char>> keptConfig();
  void check(const config::MachineConfig& config, kj::StringPtr file);
  void publishConfig(kj::ArrayPtr<const char> text, kj::StringPtr file);
  kj::String publishedConfig();
  kj::Promise<void> maintain();
  kj::Promise<void> warnOnly(kj::Promise<void> promise);
  using LoadDrivers = void (*)(const Modules&, kj::Function<void(kj::StringPtr)>);
  kj::Promise<void> loadModules(LoadDrivers load, int niceness = 0);
  bool networkApplied(kj::String& waitingFor);
};

}  // namespace talos::machined
