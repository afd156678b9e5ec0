// Upgrades and rolls back an installed node: another system is written to the slot that does not
// run, is started once, and stays only if it reports itself healthy.
//
// The steps, and the state after a crash or a power cut at any line:
//   1. The image is pulled, or its archive is fetched or received and compared with its digest. If
//      the config names a key, its signature is verified, and its version must not be below the
//      floor (version-floor.h). A control-plane node that keeps its EPHEMERAL then waits for its
//      turn to be away from etcd, and gives the turn back if it does not reboot after all. Nothing
//      has changed so far, and an error does not count as a failure of the image. This step ends if
//      the caller goes away.
//   2. The record on STATE says "writing"; the other slot is written, and compared with what the
//      disk returns (machined/disk/installer/boot-slot-writer.h). After an interruption the node is
//      as before, and the next start, or the next brain, reports that the upgrade has failed.
//   3. A Kubernetes node is cordoned and drained; failures of this do not end the upgrade. If the
//      node does not reboot after all, it is uncordoned. A control-plane node whose EPHEMERAL is to
//      be emptied leaves etcd. After an interruption, or if leaving fails, the upgrade has failed,
//      and the node joins etcd again at its next boot. One write makes the boot loader try the
//      other slot once. From then on the next start is that of the new system, and the node
//      reboots.
//   4. The new system is on trial: the boot loader has counted its try before it started the
//      system, so every end of the system (a crash, a hang that a deadline ends, a power cut, a
//      reboot) starts the old one again. When it has been healthy for a few seconds, one write
//      confirms it. Healthy includes each duty that the node fulfilled when step 2 began
//      (node-duties.h); the duties are on STATE before the record is.
//   5. A system that is not healthy in time writes the reason into the record and reboots. But if
//      everything that it lacks is caused by other nodes, such as a lost majority of etcd's voters,
//      the old system would not help: the trial continues until the system is healthy, or an
//      operator reboots the node. A system whose boot has failed also reboots; if it had no STATE
//      yet, and so no record, it leaves the error in META. Process 1 reboots a little later if the
//      brain does not (machined/process1/init), and the kernel if process 1 does not. Emptying
//      EPHEMERAL, if requested, begins after the record says so: an interruption leaves something
//      that is neither data nor empty, and the next system that is started, old or new, completes
//      it. An operator may confirm the system earlier, regardless of what it lacks: the trial then
//      confirms it as if it were healthy, and the record keeps what it lacked.
//   6. The old system finds that it runs again, and reports why: in the record, the resource
//      UpgradeStatuses/node, the event log and on the console.
//
// A staged upgrade ends after step 2, with a record that says "written, staged" and a boot loader
// that starts the running system. So after a power cut, a crash or a shutdown the same system
// starts again, and finds the other one staged. The next reboot does step 3 before anything is
// stopped: the node's duties are recorded again, a node whose EPHEMERAL is to be emptied leaves
// etcd, and the boot loader tries the other slot. The record stays unchanged meanwhile; after an
// interruption
//   * before the boot loader's one write, the system is still staged, and a node that has left etcd
//     joins it again;
//   * after the write, the new system is on trial, as in step 4, which ends the staging in its
//     record.
//
// A failure is written to the record: the reboot starts the same system, and the next reboot tries
// the staged one. Another upgrade replaces a staged one as soon as it writes; a rollback withdraws
// it, and a further rollback is refused until the other slot has a system that has run.
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
  kj::String image;  // a reference of a registry, a URL of an archive, or a file's name
  bool preserve = false;
  unsigned healthTimeoutS = 0;  // 0: the default
  kj::String query = nullptr;   // of the URL
  kj::Maybe<ClientFile> file = nullptr;
  bool force = false;  // regardless of etcd and of the version floor
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
    kj::Maybe<UpgradeVolumes&> volumes;  // nullptr: in a container whose launcher gives it no slots
    kj::Maybe<install::Slot> running;    // nullptr: started from a medium, or the network
    kj::String version;
    kj::Maybe<kj::Duration> trialLeft;  // of talos.trial=
    UpgradableNode& node;
    UpgradeRecords& records;
    UpgradeClusters& clusters;
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
  kj::Promise<kj::Maybe<kj::String>> rollback(unsigned healthTimeoutS, bool force = false);
  // Confirms the system on trial as it is. Resolves to what it lacks; empty if it is healthy.
  kj::Promise<kj::String> confirmTrial();

  // Fetches an image and verifies it, and changes nothing else. `keep`: an upgrade to its digest
  // does not fetch it again, for an hour, until another image is requested, or this brain exits.
  struct Fetched {
    kj::String digest, version;
    bool isSigned;
  };
  kj::Promise<Fetched> fetch(UpgradeRequest request, bool keep);

  // Writes the slot, as the task of the sequence "upgrade".
  kj::Promise<void> write();
  // Makes the next start that of a staged system, if there is one, as the task of a reboot. Does
  // not throw.
  kj::Promise<void> tryStaged();

  // Upgrades for a newly installed node (upgrade-to-config-image.h). Works like upgrade(), but
  // until the image is fetched, a call of upgrade() or rollback() ends it: Conflict.
  kj::Promise<void> upgradeByConfig(UpgradeRequest request);
  // Reports the progress of the drain, while the upgrade waits for it.
  void reportDrain(kj::StringPtr line);
  kj::Maybe<const UpgradeRecord&> newest() const;
  bool isUnderWay() const;  // from the fetch to the end of the trial
  bool hasSlots() const { return deps.volumes != nullptr && deps.running != nullptr; }
  // An upgrade that waits and the error of its last attempt, shown until something newer happens;
  // nullptr if no upgrade waits.
  struct Awaited {
    kj::String image, reason;
  };
  void await(kj::Maybe<Awaited> what);
  // Records and reports an unavailable image as a failed upgrade.
  kj::Promise<void> refuse(kj::String image, kj::String reason);

 private:
  struct Wanted {
    kj::String image, digest;
    NewSystem content;
    bool preserve, force, stage;
    unsigned healthTimeoutS;
  };
  // An image that was fetched for a later upgrade, and the key that its signature fits.
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
  kj::String fetched;              // its progress
  kj::String drained;              // progress of the drain; empty: not draining
  kj::Maybe<Wanted> wanted;
  kj::Maybe<Kept> kept;
  uint64_t keptNumber = 0;
  kj::Maybe<UpgradeRecord> record;
  kj::ForkedPromise<void> saving = kj::Promise<void>(kj::READY_NOW).fork();
  kj::Maybe<Awaited> awaited;
  kj::Vector<kj::Own<kj::PromiseFulfiller<kj::String>>> confirmers;  // callers of confirmTrial()
  kj::TaskSet tasks;
  kj::Canceler unasked;  // upgradeByConfig(); canceling it may add a task
  static constexpr kj::StringPtr kViewName = "machined-upgrade"_kj;  // of an image
  static constexpr auto kLookAgain = 1 * kj::SECONDS, kDiskTimeout = 10 * kj::SECONDS;

  install::Slot requireIdle();
  bool isTried() const;  // the running system is on trial, or may be
  void giveWay();
  kj::Promise<void> get(UpgradeRequest request);
  kj::Promise<Fetched> verify(UpgradeRequest request, bool keep);
  struct Source {
    kj::Maybe<ArchiveUrl> url;
    bool registry = false;
    kj::String digest;  // if the request names it; as in Wanted::digest
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
  // Requires that the image knows the keys of the config and, if it is signed, is not below the
  // floor.
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
