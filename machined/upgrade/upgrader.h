// Upgrades and rollbacks of an installed node: another system goes into the slot that does not run,
// is started once, and stays only if it reports itself healthy.
//
// The order, and what a crash or a power cut leaves at any line:
//   1. The image is pulled, or its archive is fetched or received and compared with its digest, and
//      its signature is verified if the config names a key: then its version must not be below the
//      floor, too (version-floor.h). A control-plane node that keeps its EPHEMERAL then waits for
//      its turn to be away from etcd; it gives that back if it does not reboot after all. Nothing
//      has changed, and whatever is wrong is no failure of the image. A caller who goes away ends
//      it.
//   2. The record on STATE says "writing"; the other slot is written, and compared with what the
//      disk gives back (machined/disk/installer/boot-slot-writer.h). Cut off, the node is as it
//      was, and the next start, or the next brain, says that this one has failed.
//   3. A node of Kubernetes is cordoned and drained, which no failure ends; if it does not reboot
//      after all, it is uncordoned. A control-plane node whose EPHEMERAL is to be emptied leaves
//      etcd. Cut off, or when that fails, the upgrade has failed, and the node joins again at its
//      next boot. One write makes the boot loader try the other slot once. From there
//      on the next start is that of the new system, and the node reboots.
//   4. The new system is on trial: the boot loader has counted its try before it started it, so
//      every end of it (a crash, a hang that a deadline ends, a power cut, a reboot) starts the old
//      one again. When it has been healthy for a few seconds, one write confirms it. Healthy
//      includes each duty that the node fulfilled when step 2 began (node-duties.h); they are on
//      STATE before the record is.
//   5. A system that is not healthy in time says why in the record and reboots, unless all that it
//      lacks is caused by other nodes, as a majority of etcd's voters that is lost: the old system
//      could not help that either, so the trial goes on until it is healthy, or an operator
//      reboots the node. So does one whose
//      boot has failed; if that was before it had STATE, and with it the record, it leaves the
//      error in META. Process 1 does the same a little later for a brain that does not
//      (machined/process1/init), and the kernel for process 1.
//      Emptying EPHEMERAL, if that was asked for, begins after the record says so: a cut in it
//      leaves something that is neither data nor empty, and whichever system is started then ends
//      it.
//      An operator may confirm it before, whatever it lacks: the trial does that as if it were
//      healthy, and the record keeps what it lacked.
//   6. The old system finds that it runs again, and reports why: in the record, the resource
//      UpgradeStatuses/node, the event log and on the console.
//
// An upgrade that is staged ends after step 2, with a record that says "written, staged" and a boot
// loader that starts what runs, so a power cut, a crash and a shutdown start the same system again,
// which finds it staged. Its step 3 is done by the next reboot, before anything is stopped: what
// the node does is recorded anew, a node whose EPHEMERAL is to be emptied leaves etcd, and the boot
// loader tries the other slot. The record stays as it is meanwhile:
//   * cut off before the boot loader's one write, it is still staged, and a node that has left etcd
//     joins it again;
//   * after it, the new system is on trial, as of step 4, which ends the staging in its record.
// A failure there is in the record: the reboot starts the same system, and the next one tries it.
// Another upgrade replaces a staged one, from when it writes; a rollback withdraws it, and is then
// refused until there is a system in the other slot that has run.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "machined/process1/process1.h"
#include "machined/resources/store.h"
#include "machined/services/containers/container-images.h"
#include "machined/upgrade/boot-slot-client.h"
#include "machined/upgrade/upgrade-environment.h"
#include "machined/upgrade/upgrade-outcome.h"

namespace talos::machined {

struct UpgradeRequest {
  kj::String image;  // a reference of a registry, or a URL of an archive; of a file its name
  bool preserve = false;
  unsigned healthTimeoutS = 0;  // 0: the default
  kj::String query = nullptr;   // of the URL
  kj::Maybe<ClientFile> file = nullptr;
  bool force = false;  // whatever that means to etcd, and below the version floor
  bool stage = false;  // it is tried at the next reboot
};

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
    kj::Maybe<UpgradeVolumes&> volumes;  // none: in a container whose launcher gives it no slots
    kj::Maybe<install::Slot> running;    // none: from a medium, or the network
    kj::String version;
    kj::Maybe<kj::Duration> trialLeft;  // of talos.trial=
    UpgradableNode& node;
    UpgradeRecords& records;
    UpgradeClusters& clusters;
  };
  explicit Upgrader(Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(Upgrader);

  // When STATE is mounted: the state is found out, reported and recorded, a trial goes on. A second
  // call does nothing. Does not throw. An upgrade that the power has cut off has failed, unless
  // `beginsAnew` says of its record that it is tried again: then nothing is known of it.
  using BeginsAnew = kj::Function<kj::Promise<bool>(const UpgradeRecord& cut)>;
  kj::Promise<void> resume(kj::Maybe<BeginsAnew> beginsAnew = nullptr);
  // The boot has ended with these problems: a trial that has not begun, for want of STATE, ends.
  kj::Promise<void> bootFailed(kj::String problems);
  // Before EPHEMERAL is mounted: the upgrade may have been one without --preserve, and emptying it
  // may have been cut off.
  kj::Promise<void> emptyEphemeralIfAsked();

  // The errors of rpc/upgrade.capnp. Resolve when it goes on by itself.
  kj::Promise<void> upgrade(UpgradeRequest request);
  // A rollback keeps EPHEMERAL, and asks etcd as an upgrade that does. One that withdraws a staged
  // system resolves to its slot and version, and the node does not reboot.
  kj::Promise<kj::Maybe<kj::String>> rollback(unsigned healthTimeoutS, bool force = false);
  // Confirms the system on trial as it is. Resolves to what it lacks, or to nothing.
  kj::Promise<kj::String> confirmTrial();

  // Fetches an image and verifies it, and changes nothing else. `keep`: an upgrade to its digest
  // does not fetch it again, for an hour, until another one is asked for, or this brain ends.
  struct Fetched {
    kj::String digest, version;
    bool isSigned;
  };
  kj::Promise<Fetched> fetch(UpgradeRequest request, bool keep);

  // The task of the sequence.
  kj::Promise<void> write();
  // That of a reboot: the next start is that of a staged system, if there is one. Does not throw.
  kj::Promise<void> tryStaged();

  // For the upgrade that an installation has left to the installed system
  // (upgrade-to-config-image.h). As upgrade(), until the image is there; a call of upgrade() or
  // rollback() before that ends it: Conflict.
  kj::Promise<void> upgradeByConfig(UpgradeRequest request);
  // How far the drain is, while it waits for that.
  void reportDrain(kj::StringPtr line);
  kj::Maybe<const UpgradeRecord&> newest() const;
  bool isUnderWay() const;  // from the fetch to the end of the trial
  bool hasSlots() const { return deps.volumes != nullptr && deps.running != nullptr; }
  // An upgrade that waits and the error of its last attempt, as long as nothing newer happens.
  // None: nothing waits.
  struct Awaited {
    kj::String image, reason;
  };
  void await(kj::Maybe<Awaited> what);
  // The image is not available: recorded and reported as an upgrade that has failed.
  kj::Promise<void> refuse(kj::String image, kj::String reason);

 private:
  struct Wanted {
    kj::String image, digest;
    NewSystem content;
    bool preserve, force, stage;
    unsigned healthTimeoutS;
  };
  // An image that was fetched for an upgrade that may come, and the key that its signature fits.
  struct Kept {
    Wanted image;
    kj::String key;
    uint64_t number;
  };
  Dependencies deps;
  BootSlots slots;
  bool resumed = false, onTrial = false, rebooting = false;
  bool settled = false;            // process 1 does not end a trial any more
  bool failureIsInMeta = false;    // in META
  kj::String problem;              // of write()
  kj::Maybe<kj::String> fetching;  // the image
  kj::String fetched;              // how far it is
  kj::String drained;              // the same of the drain; empty: it is none of that
  kj::Maybe<Wanted> wanted;
  kj::Maybe<Kept> kept;
  uint64_t keptNumber = 0;
  kj::Maybe<UpgradeRecord> record;
  kj::ForkedPromise<void> saving = kj::Promise<void>(kj::READY_NOW).fork();
  kj::Maybe<Awaited> awaited;
  kj::Vector<kj::Own<kj::PromiseFulfiller<kj::String>>> confirmers;  // confirmTrial(), of the trial
  kj::TaskSet tasks;
  kj::Canceler unasked;  // what it ends may leave a task
  static constexpr kj::StringPtr kViewName = "machined-upgrade"_kj;  // of an image
  static constexpr auto kLookAgain = 1 * kj::SECONDS, kDiskTimeout = 10 * kj::SECONDS;

  install::Slot requireIdle();
  bool isTried() const;  // the system that runs is on trial, or may be
  void giveWay();
  kj::Promise<void> get(UpgradeRequest request);
  kj::Promise<Fetched> verify(UpgradeRequest request, bool keep);
  struct Source {
    kj::Maybe<ArchiveUrl> url;
    bool registry = false;
    kj::String digest;  // if the request names it, as Wanted::digest
  };
  Source sourceOf(UpgradeRequest& request);
  kj::Promise<void> requireReady(const Source& source);
  kj::Promise<Wanted> obtain(UpgradeRequest& request, Source& source, kj::StringPtr key);
  kj::Maybe<Wanted> takeKept(const Source& source, kj::StringPtr key);
  void keepForLater(Wanted image, kj::String key);
  kj::Promise<void> dropKept();
  kj::Promise<Wanted> pulled(kj::String image, kj::String key);
  kj::Promise<Wanted> archived(UpgradeRequest& request, kj::Maybe<ArchiveUrl> url, kj::String key);
  void progressed(uint64_t done, uint64_t size);
  // It knows the keys of the config, and if it is signed, it is not older than it may be.
  kj::Promise<void> requireFits(const Wanted& next, bool isSigned);
  kj::Promise<void> requireNotBelowFloor(const Wanted& next, kj::StringPtr version);
  kj::Promise<kj::String> raiseFloor();
  kj::Promise<kj::String> raiseFloorTo(kj::String running);
  kj::Promise<void> reportFailure(kj::Promise<kj::String> raising);
  kj::String runningVersion(const install::SlotsOnDisk& found) const;
  kj::Promise<void> takeRestartTurn(bool force);
  kj::Promise<kj::Maybe<kj::String>> rollBack(unsigned healthTimeoutS, bool force);
  kj::Promise<kj::Maybe<kj::String>> withdraw();
  kj::Promise<void> stage();
  kj::Promise<void> chooseStaged();
  kj::String stagedReason() const;
  kj::Promise<void> ready(bool containerd);
  kj::Promise<void> writeSlot();
  kj::Promise<void> findOut(kj::Maybe<BeginsAnew>& beginsAnew);
  kj::Promise<void> cutOff(kj::Maybe<BeginsAnew>& beginsAnew);
  kj::Promise<void> recordEmptying(bool begins);
  UpgradeRecord newRecord(kj::String image) const;
  kj::Promise<void> fellBack(install::Slot running, kj::Maybe<kj::String> trialFailure);
  kj::Promise<kj::Maybe<kj::String>> readTrialFailure();
  kj::Promise<void> clearTrialFailure();
  kj::Promise<void> revoke();
  kj::Promise<void> carryOut();
  kj::Promise<void> rebootInto();
  kj::Promise<void> recordDuties(kj::Date upgrade);
  kj::Promise<kj::Maybe<DutyRecord>> dutiesBefore();
  kj::Promise<Health> trialHealth(const kj::Maybe<DutyRecord>& before);
  kj::Promise<void> trial();
  kj::Promise<bool> confirm(kj::String reason);
  kj::Promise<bool> confirmAsAsked(const kj::Maybe<kj::String>& lacks);
  void refuseConfirmation(kj::StringPtr reason);
  kj::Promise<void> giveUp(kj::String reason);
  kj::Promise<void> settle();
  kj::Promise<void> failed(kj::String reason);
  kj::Promise<void> keep();
  kj::Promise<void> saveOrReport();
  void publish();
  kj::StringPtr stageName() const;
  kj::Promise<void> choose(install::Slot confirmed, kj::Maybe<install::Slot> attempt);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
