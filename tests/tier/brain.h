// The brain of a machine of the model, from one start of machined to the next: the real Upgrader
// and EtcdDeparture, and the machine around them as they see it.
#pragma once

#include "machined/kubernetes/etcd/etcd-departure.h"
#include "machined/upgrade/upgrader.h"
#include "tests/tier/machine.h"

namespace talos::tier {

class Brain final : private machined::UpgradableNode,
                    private machined::UpgradeRecords,
                    private machined::UpgradeClusters,
                    private machined::ImageArchives {
 public:
  explicit Brain(Machine& machine);
  ~Brain() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Brain);

  machined::Upgrader& upgrader() { return *upgrader_; }
  machined::Store& store;
  bool isListening = false;  // apid is up
  kj::StringPtr stage = "booting"_kj;
  // Wraps calls of others, which fail when this brain ends.
  template <typename T>
  kj::Promise<T> call(kj::Promise<T> promise) {
    return canceler.wrap(kj::mv(promise));
  }
  bool isAfterACrash() const { return process1.brainRestarts() > 0; }
  // Reboots at the request of an operator.
  kj::Promise<void> rebootByOperator();

 private:
  Machine& machine;
  Tier& tier;
  machined::FakeProcess1 process1;
  kj::TimePoint started;
  machined::EtcdDeparture departure;
  kj::Own<machined::Upgrader> upgrader_;
  kj::Promise<void> booting = nullptr;
  kj::Canceler canceler;
  bool isGoing = false, hasDrained = false;

  machined::Upgrader::Dependencies dependencies();
  kj::Promise<void> boot();
  kj::Promise<kj::Maybe<machined::DutyFacts::Etcd>> etcdFacts();

  // --- UpgradableNode ---
  kj::String kernelArguments() override { return kj::String(); }
  kj::String imageKey() override { return kj::String(); }
  kj::Vector<kj::String> configKeysNotIn(kj::StringPtr) override { return {}; }
  kj::Promise<void> requireSignature(kj::String, kj::String) override { return kj::READY_NOW; }
  bool isBooted() override { return stage == "running"; }
  kj::Promise<machined::Health> health() override;
  kj::Promise<kj::Vector<machined::Duty>> duties() override;
  machined::DutyScope dutyScope() override { return {}; }
  kj::Promise<void> runSequence(kj::Function<kj::Promise<void>()> write) override;
  kj::Promise<void> reboot(kj::StringPtr reason) override;
  void announce(kj::StringPtr line) override;

  // --- UpgradeRecords ---
  kj::Promise<kj::Maybe<machined::UpgradeRecord>> load() override;
  kj::Promise<void> save(const machined::UpgradeRecord& record) override;
  kj::Promise<void> saveDuties(const machined::DutyRecord& duties) override;
  kj::Promise<kj::Maybe<machined::DutyRecord>> loadDuties() override;
  kj::Promise<void> writeTrialFailure(kj::StringPtr reason) override;
  kj::Promise<kj::Maybe<kj::String>> readTrialFailure() override;
  kj::Promise<void> clearTrialFailure() override;
  kj::Promise<kj::Maybe<kj::String>> readVersionFloor() override;
  kj::Promise<void> writeVersionFloor(kj::StringPtr version) override;

  // --- UpgradeClusters ---
  kj::Promise<void> requireSpare(bool preserve) override;
  kj::Promise<void> leave(bool preserve, bool force) override;
  kj::Promise<void> stay() override { return departure.stay(); }
  kj::Promise<void> drain() override;
  void uncordon() override {}

  // --- ImageArchives ---
  kj::Promise<machined::ImageArchive> fetch(machined::ArchiveUrl url, kj::String key,
                                            Progress progress) override;
  kj::Promise<machined::ImageArchive> receive(kj::String name, machined::ClientFile file,
                                              kj::String key, Progress progress) override;
};

// Returns the name of an image in requests, with its digest.
kj::String imageName(unsigned image);
// Returns the image of a digest; 0 for another digest.
unsigned imageNamed(kj::StringPtr digest);

}  // namespace talos::tier
