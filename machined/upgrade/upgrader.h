// Upgrades and rolls back an installed node: another system is written to the slot that does not
// run, is started once, and stays only if it reports itself healthy. This class is the entrance: it
// lets one upgrade at a time begin, and connects the parts.
//
//   upgrade-steps.h      an upgrade, a rollback, a reboot into a staged system: the lists of steps
//   upgrade-plan.h       the request of an upgrade, and the plan that it becomes
//   image-source.h       fetches images; image-admission.h decides whether one may be installed
//   slot-switch.h        writes the other slot, and the two choices of the boot loader that decide
//   record-writer.h      the record on STATE; the order of all durable writes, and the state if a
//                        crash follows each
//   upgrade-lifecycle.h  the phases of a record, and what a start concludes from the disk: pure
//   system-trial.h       the trial of the new system: it is confirmed, or gives up
//   root-switch.h        another system takes over without a reboot
//   ephemeral-wipe.h     empties EPHEMERAL for an upgrade without --preserve
//   upgrade-status.h     the resource UpgradeStatuses/node
//
// At each start of a system, resume() compares the boot loader's state with the record. The old
// system, when it finds that it runs again, reports why: in the record, the status, the event log
// and on the console.
#pragma once

#include "machined/resources/store.h"
#include "machined/upgrade/ephemeral-wipe.h"
#include "machined/upgrade/system-trial.h"
#include "machined/upgrade/upgrade-steps.h"
#include "rpc/upgrade.capnp.h"

namespace talos::machined {

class Upgrader final : private kj::TaskSet::ErrorHandler {
 public:
  struct Dependencies {
    kj::Timer& timer;
    const kj::Clock& clock;
    Process1& process1;
    Store& store;
    Containerd& containerd;
    Installer& installer;
    ImageArchives& archives;
    kj::Maybe<UpgradeVolumes&> volumes;  // nullptr: in a container whose launcher gives it no slots
    kj::Maybe<install::Slot> running;    // nullptr: started from a medium, or the network
    kj::String version;
    kj::Maybe<kj::Duration> trialLeft;  // of talos.trial=, or of a trial without a reboot
    UpgradableNode& node;
    UpgradeRecords& records;
    UpgradeClusters& clusters;
    // Returns why nothing can begin while a config is on trial: the two trials would share one
    // node. A request of a client waits for its end for some minutes.
    kj::Function<kj::Maybe<kj::String>()> configOnTrial;
    kj::Maybe<RootSwitch&> root = nullptr;  // nullptr: this node reboots for each system
    bool entered = false;                   // the running system took over without a reboot
  };
  explicit Upgrader(Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(Upgrader);

  // Runs when STATE is mounted: determines, reports and records the state, and continues a trial. A
  // second call does nothing. Does not throw. An upgrade that a power cut interrupted has failed,
  // unless `beginsAnew` returns true for its record, so that it is retried; then the record is
  // dropped.
  using BeginsAnew = kj::Function<kj::Promise<bool>(const UpgradeRecord& cut)>;
  kj::Promise<void> resume(kj::Maybe<BeginsAnew> beginsAnew = nullptr);
  // Ends a trial that has not begun, for lack of STATE, because the boot has ended with these
  // problems.
  kj::Promise<void> bootFailed(kj::String problems);
  // Runs before EPHEMERAL is mounted: the upgrade may have been without --preserve, and emptying
  // may have been interrupted.
  kj::Promise<void> emptyEphemeralIfAsked();

  // Upgrades. Has the errors of rpc/upgrade.capnp. Resolves when the rest continues by itself.
  kj::Promise<void> upgrade(UpgradeRequest request);
  // Rolls back, with the same errors. Keeps EPHEMERAL, and queries etcd as an upgrade with
  // `preserve`. If it withdraws a staged system, resolves to its slot and version, and the node
  // does not reboot.
  kj::Promise<kj::Maybe<kj::String>> rollback(unsigned healthTimeoutS, bool force = false,
                                              bool live = false);
  // Confirms the system on trial as it is. Resolves to what it lacks; empty if it is healthy.
  kj::Promise<kj::String> confirmTrial();

  // Fetches an image and verifies it, and changes nothing else. `keep`: an upgrade to its digest
  // does not fetch it again, for an hour, until another image is requested, or this brain exits.
  using Fetched = FetchedImage;
  kj::Promise<Fetched> fetch(UpgradeRequest request, bool keep);

  // Makes the next start that of a staged system, if there is one, as the task of a reboot. Does
  // not throw.
  kj::Promise<void> tryStaged();

  // Upgrades for a newly installed node (upgrade-to-config-image.h). Works like upgrade(), but
  // until the image is fetched, a call of upgrade() or rollback() ends it: Conflict.
  kj::Promise<void> upgradeByConfig(UpgradeRequest request);
  // Reports the progress of the drain, while the upgrade waits for it.
  void reportDrain(kj::StringPtr line);
  // Returns the newest record, valid until the next change; nullptr without a record.
  kj::Maybe<const UpgradeRecord&> newest() const;
  // Returns true while the system that runs is on trial.
  bool isOnTrial() const { return trial.isPossible(); }
  // Returns true from the fetch to the end of the trial.
  bool isUnderWay() const;
  bool hasSlots() const { return deps.volumes != nullptr && deps.running != nullptr; }
  // Shows an upgrade that waits, until another one begins; nullptr if no upgrade waits.
  using Awaited = AwaitedUpgrade;
  void await(kj::Maybe<Awaited> what);
  // Records and reports an unavailable image as a failed upgrade.
  kj::Promise<void> refuse(kj::String image, kj::String reason);

 private:
  Dependencies deps;
  bool resumed = false;
  UpgradeProgress progress;
  RecordWriter records;
  SlotSwitch slots;
  ImageSource images;
  ImageAdmission admission;
  SystemTrial trial;
  EphemeralWipe wipe;
  UpgradeSteps steps;
  kj::TaskSet tasks;
  kj::Canceler unasked;  // upgradeByConfig(); canceling it may add a task

  void requireIdle() const;
  kj::Promise<void> awaitConfig();
  void requireStill();  // idle, and no config is on trial
  void giveWay();
  kj::Promise<void> concludeStart(kj::Maybe<BeginsAnew>& beginsAnew);
  void beginTrial(install::Slot confirmed);
  kj::Promise<void> fellBack(kj::Maybe<kj::String> reasonInMeta);
  kj::Promise<void> cutOff(kj::Maybe<BeginsAnew>& beginsAnew);
  void publish();
  void taskFailed(kj::Exception&& e) override;
};

// Serves the capability Upgrades (rpc/upgrade.capnp); `upgrader` must outlive it.
rpc::Upgrades::Client serveUpgrades(Upgrader& upgrader, kj::StringPtr bootId);

}  // namespace talos::machined
