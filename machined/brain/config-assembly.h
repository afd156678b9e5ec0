// Assembly of the machine config: its sources, its copy on disk, the config manager, maintenance
// mode, and the controllers that need only the config.
#pragma once

#include "machined/boot/maintenance-mode.h"
#include "machined/brain/disk-assembly.h"
#include "machined/brain/services-assembly.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/controllers/platform-facts-file.h"
#include "machined/config/debug-console.h"
#include "machined/config/maintenance-notice.h"
#include "machined/config/node-sources.h"
#include "machined/system/trusted-bundle.h"

namespace talos::machined {

class LifeAssembly;

class ConfigAssembly final : private ConfigHost {
 public:
  ConfigAssembly(BrainCore& core, ServicesAssembly& services, DiskAssembly& disks,
                 LifeAssembly& life)
      : core(core), services(services), disks(disks), life(life) {}
  KJ_DISALLOW_COPY_AND_MOVE(ConfigAssembly);

  void addControllers();

 private:
  BrainCore& core;
  ServicesAssembly& services;
  DiskAssembly& disks;
  LifeAssembly& life;
  NodeConfigSources sources{sourcesDependencies()};
  StateDisk stateDisk{core.uv, core.container ? StateOn::kLauncher : StateOn::kDisk, kStateConfig,
                      KJ_BIND_METHOD(disks.state, lockedProblem),
                      KJ_BIND_METHOD(disks.state, untilOpened)};
  StateDisk trialRecords{core.uv, core.container ? StateOn::kLauncher : StateOn::kDisk, kTrialFile};

 public:
  VolumeKeys volumeKeys{keysDependencies()};
  ConfigManager manager{managerDependencies()};
  MaintenanceMode maintenance{manager, core.status, services.supervisor, core.controllers};
  PlatformFactsFile platformFacts{core.uv, core.platform,
                                  [this]() { return disks.state.isMounted(); }};
  UserFileProblems fileProblems{core.process1};
  TrustedBundle trustedBundle{disks.mounts, fileProblems};
  DebugConsole debugConsole{core.store, core.configReader, core.logs, core.console};
  ControllerDependencies controllerDeps{controllerDependenciesOf()};

 private:
  MaintenanceNotice notice{core.store, KJ_BIND_METHOD(manager, inMaintenance), core.printAlarms()};

  NodeConfigSources::Dependencies sourcesDependencies();
  VolumeKeys::Dependencies keysDependencies();
  kj::Promise<kj::Maybe<kj::String>> ephemeralPartition();
  ConfigManager::Dependencies managerDependencies();
  ControllerDependencies controllerDependenciesOf();

  void print(kj::StringPtr line, Tone tone) override { core.console.say(line, tone); }
  kj::String sequence() const override;
  bool isLeaving() const override;
  bool bootHasSaved() const override;
  bool bootFailed() const override;
  kj::Promise<void> intendReboot() override;
  void reboot() override;
  void maintenanceChanged() override { maintenance.changed(); }
  void trialChanged(kj::StringPtr what) override;
  void changeTrialChanged(kj::StringPtr what, Tone tone) override;
  kj::Promise<TrialFacts> trialFacts(config::Config::Reader before, bool ownNetwork) override;
};

}  // namespace talos::machined
