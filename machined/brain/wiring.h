// The part of machined that decides: an ordinary child of process 1 that may die at any line.
//
// It owns the store, the logs, the events, the controllers, the services and the sequences of this
// machine, and serves them on /run/talos/machined.sock. Process 1 holds everything that must
// outlive the brain: listening sockets ("listen/<service>"), log rings, the store's journal, the
// histories of services, a config that is being applied or tried, and the stage of the machine
// ("progress"). A new brain restores all of this, in the order of run(), adopts the running
// services, and continues with its predecessor's sequence (machine-life.h).
//
// Its parts are made in assemblies, each after the assemblies that it needs; references to later
// assemblies are used only when all exist.
#pragma once

#include "machined/brain/serving-assembly.h"

namespace talos::machined {

class Wiring final : private kj::TaskSet::ErrorHandler {
 public:
  // `process1` has received the inventory already.
  Wiring(kj::AsyncIoContext& io, Process1& process1) : core(io, process1) {}
  KJ_DISALLOW_COPY_AND_MOVE(Wiring);

  // Rejects if this process should exit and process 1 start another; never resolves.
  kj::Promise<void> run();

 private:
  BrainCore core;
  ServicesAssembly services{core, [this]() { return disks.state.isMounted(); }};
  DiskAssembly disks{core, services.crashes, [this]() { return life.life.sequenceOrNext(); }};
  ConfigAssembly config{core, services, disks, life};
  KubernetesAssembly kubernetes{core, services, disks, config,
                                [this](kj::StringPtr line) { upgrade.upgrader.reportDrain(line); }};
  UpgradeAssembly upgrade{core, services, disks, kubernetes, life};
  LifeAssembly life{core,       services, disks, config,
                    kubernetes, upgrade,  tasks, [this]() { return serving.node.askedBy(); }};
  ServingAssembly serving{core, services, disks, config, kubernetes, upgrade, life};
  kj::TaskSet tasks{*this};

  // The steps of run().
  kj::Promise<kj::Maybe<crash::CrashRecord>> reportOwnCrashes();
  kj::Promise<kj::Maybe<kj::String>> recoverRecords();
  void logRestart();
  void addControllers();
  kj::Promise<void> followPowerActions();
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
