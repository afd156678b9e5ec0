// What the machine config drives by itself: environment of the services, /var, files, kernel
// parameters. The tasks of the boot that do it first, and the controllers that follow a change
// (docs/config-effects.md). Each task may be run again by the next brain and comes to the same end.
#pragma once

#include "machined/controllers/machine-config-reader.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/services/supervisor.h"
#include "machined/system/sysctls.h"
#include "machined/system/system-mounts.h"
#include "machined/telemetry/node-console.h"

namespace talos::machined {

class ConfigEffects {
 public:
  struct World {
    Store& store;
    MachineConfigReader& configReader;
    Supervisor& supervisor;
    Console& console;
    UvLoop& uv;
    kj::Timer& timer;
  };
  explicit ConfigEffects(World world) : world(kj::mv(world)) {}

  void addControllers(ControllerRuntime& controllers);
  // What a service is started with, from what its definition says.
  kj::Array<kj::String> environment(kj::StringPtr service, kj::ArrayPtr<const kj::String> own);

  kj::Promise<void> setUserEnvVars();
  kj::Promise<void> mountEphemeralPartition();
  kj::Promise<void> setupVarDirectory();
  kj::Promise<void> mountOverlayFilesystems();
  kj::Promise<void> writeUserFiles();
  kj::Promise<void> writeUserSysctls();

 private:
  World world;
  kj::Maybe<ControllerRuntime&> runtime;
  KernelMounts mounts;
  UserSysctls sysctls{"/proc/sys", "/system/run/sysctls"};

  kj::Maybe<config::Machine::Reader> find(Store& store);
  config::Machine::Reader machineConfig();
  kj::Promise<void> renew(kj::StringPtr service);
};

}  // namespace talos::machined
