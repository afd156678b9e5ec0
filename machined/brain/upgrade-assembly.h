// Assembly of upgrades: image archives, the upgrader, the upgrade to machine.install.image, and the
// health of a system on trial.
#pragma once

#include "machined/brain/container-root.h"
#include "machined/brain/kubernetes-assembly.h"
#include "machined/upgrade/image-archives.h"
#include "machined/upgrade/upgrade-to-config-image.h"
#include "machined/upgrade/upgrader.h"

namespace talos::machined {

class LifeAssembly;

class UpgradeAssembly final : private UpgradableNode,
                              private UpgradeRecords,
                              private UpgradeClusters,
                              private PendingImageNode {
 public:
  UpgradeAssembly(BrainCore& core, ServicesAssembly& services, DiskAssembly& disks,
                  KubernetesAssembly& kubernetes, LifeAssembly& life)
      : core(core), services(services), disks(disks), kubernetes(kubernetes), life(life) {}
  KJ_DISALLOW_COPY_AND_MOVE(UpgradeAssembly);

  void addControllers();
  kj::Promise<kj::Vector<Duty>> duties() override { return duties(false); }
  // Resolves with the duties. `silentAreIll`: other voters of etcd that do not answer at all are
  // ill, as if this node had reached their machines.
  kj::Promise<kj::Vector<Duty>> duties(bool silentAreIll);

 private:
  BrainCore& core;
  ServicesAssembly& services;
  DiskAssembly& disks;
  KubernetesAssembly& kubernetes;
  LifeAssembly& life;
  kj::TimePoint brainStarted = core.timer.now();
  RealImageArchives archives{archivesDependencies()};
  UpgradePartitions partitions{
      disks.installer, [this]() { return core.uv.blocking([]() { return readBlockDevices(); }); }};
  UpgradeFolders folders{install::kSlotsPath, kVarPath, core.blocking()};
  ContainerRoot root{core, services.supervisor};

 public:
  Upgrader upgrader{upgraderDependencies()};
  InstallImage installImage{installImageDependencies()};

 private:
  RealImageArchives::Dependencies archivesDependencies();
  kj::Maybe<UpgradeVolumes&> volumes();
  kj::Maybe<RootSwitch&> rootSwitch();
  Upgrader::Dependencies upgraderDependencies();
  InstallImage::Dependencies installImageDependencies();

  kj::String kernelArguments() override;
  kj::String imageKey() override;
  kj::Vector<kj::String> configKeysNotIn(kj::StringPtr list) override;
  kj::Promise<void> requireSignature(kj::String pinned, kj::String key) override;
  bool isBooted() override;
  kj::Promise<Health> health() override;
  DutyScope dutyScope() override { return dutyScopeOf(core.store); }
  kj::Promise<kj::Maybe<kj::String>> networkLacks();  // resolves within about a second
  kj::Promise<kj::Maybe<DutyFacts::Etcd>> etcdFacts(bool silentAreIll);
  kj::Maybe<kj::String> configOnTrial();
  kj::Promise<bool> isReached(kj::StringPtr peerUrl);
  kj::Promise<void> runSequence(kj::Function<kj::Promise<void>()> write) override;
  kj::Promise<void> reboot(kj::StringPtr reason) override;
  void announce(kj::StringPtr line) override;

  kj::Promise<kj::Maybe<UpgradeRecord>> load() override;
  kj::Promise<void> save(const UpgradeRecord& record) override;
  kj::Promise<void> saveDuties(const DutyRecord& duties) override;
  kj::Promise<kj::Maybe<DutyRecord>> loadDuties() override;
  kj::Promise<void> writeTrialFailure(kj::StringPtr reason) override;
  kj::Promise<kj::Maybe<kj::String>> readTrialFailure() override;
  kj::Promise<void> clearTrialFailure() override;
  kj::Promise<kj::Maybe<kj::String>> readVersionFloor() override;
  kj::Promise<void> writeVersionFloor(kj::StringPtr version) override;

  kj::Promise<void> requireSpare(bool preserve) override;
  kj::Promise<void> leave(bool preserve, bool force) override;
  kj::Promise<void> stay() override { return kubernetes.departure.stay(); }
  kj::Promise<void> drain() override { return kubernetes.nodeDrain.drain(); }
  void uncordon() override { kubernetes.nodeDrain.uncordon(); }

  kj::Maybe<kj::String> configuredImage() override;
  void log(kj::StringPtr line) override { core.console.say(line, Tone::kAlarm); }
  kj::Promise<kj::Maybe<PendingImage>> loadPendingImage() override;
  kj::Promise<void> savePendingImage(kj::Maybe<PendingImage> pending) override;
};

}  // namespace talos::machined
