// Assembly of the machine's life: its sequences with their tasks, and the controllers that report
// the state of the machine.
#pragma once

#include "machined/boot/machine-life.h"
#include "machined/brain/trial-facts.h"
#include "machined/config/controllers/state-controllers.h"
#include "machined/process1/value-in-memory-file.h"
#include "machined/screen/machine-screen.h"
#include "machined/screen/screen-controller.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

class LifeAssembly final : private MachineLifeHost {
 public:
  // `requester` returns " by admin (10.5.0.1)" for the caller that has just requested a shutdown;
  // otherwise "".
  LifeAssembly(BrainCore& core, ServicesAssembly& services, DiskAssembly& disks,
               ConfigAssembly& configs, KubernetesAssembly& kubernetes, UpgradeAssembly& upgrades,
               kj::TaskSet& background, kj::Function<kj::String()> requester)
      : core(core),
        services(services),
        disks(disks),
        configs(configs),
        upgrades(upgrades),
        facts(core, services, kubernetes, upgrades),
        background(background),
        requester(kj::mv(requester)) {}
  KJ_DISALLOW_COPY_AND_MOVE(LifeAssembly);

  void addControllers();
  // From then on the machine's own screen shows events.
  void beginScreen();
  // The state of the node for the trial of a change of its config; does not reject.
  kj::Promise<TrialFacts> trialFacts(config::Config::Reader before, bool ownNetwork) {
    return facts.read(before, ownNetwork);
  }
  // Returns true while a config is on trial or goes back.
  bool isConfigOnTrial() const;
  // The trial of a change of the config has begun, or has news.
  void changeTrialChanged();
  // A client has called; tells the trial if that shows that clients can reach the node.
  void clientCalled();
  // Runs the sequence "upgrade" with this task.
  kj::Promise<void> upgrade(kj::Function<kj::Promise<void>()> write);

 private:
  BrainCore& core;
  ServicesAssembly& services;
  DiskAssembly& disks;
  ConfigAssembly& configs;
  UpgradeAssembly& upgrades;
  NodeTrialFacts facts;
  bool countsCall = false, calledMeanwhile = false;
  kj::TaskSet& background;
  kj::Function<kj::String()> requester;
  TaskDependencies deps{core.arguments,
                        core.uv,
                        core.timer,
                        core.process1,
                        core.events,
                        core.console,
                        core.store,
                        core.configReader,
                        core.controllers,
                        services.supervisor,
                        services.kernelClock,
                        disks.mounts,
                        disks.kernel,
                        disks.state,
                        disks.recorder,
                        configs.manager,
                        services.containerd,
                        disks.installer,
                        disks.ephemeral,
                        *disks.reset,
                        disks.userDisks,
                        disks.dataVolumes,
                        upgrades.upgrader,
                        upgrades.installImage,
                        configs.platformFacts,
                        core.helpers,
                        configs.fileProblems};
  MachineScreen screen{core.printInfo()};
  Held<rpc::HeldCount> reportedRepairs{core.process1, "events/network"};

 public:
  Sequencer sequencer{core.announcements, core.timer, kj::systemPreciseMonotonicClock()};
  MachineLife life{{.process1 = core.process1,
                    .timer = core.timer,
                    .sequencer = sequencer,
                    .status = core.status,
                    .host = *this}};
  bool mustInstall() override { return core.mode == Mode::kMetal && !disks.state.isMounted(); }

 private:
  Sequence sequence(kj::StringPtr name) override { return makeSequence(name, core.mode, deps); }
  void print(kj::StringPtr line, Tone tone) override { core.console.say(line, tone); }
  void keepApi() override;
  void settled() override;
  kj::Promise<void> recordReason(kj::StringPtr reason) override;
  bool mustReset() override { return disks.reset->promised() != nullptr; }
  void bootFailed(kj::StringPtr reasons) override;

  bool isCallMissing();
  kj::Promise<void> countCalls();
  kj::Own<Controller> repairController();
  bool hasScreen() const;
  ScreenController::Progress screenProgress();
  MachineStatusController::State machineState();
};

}  // namespace talos::machined
