// The steps of an upgrade, in upgrade() and write(), and those of a rollback and of a reboot into a
// staged system, which share them.
//
//   1. The image is fetched, verified and admitted. A control-plane node that keeps its EPHEMERAL
//      then waits for its turn to be away from etcd. Nothing has changed so far, and an error does
//      not count as a failure of the image. This step ends if the caller drops its promise.
//   2. The request has become a plan, which the node carries out without the caller. The record on
//      STATE says "writing", and the other slot is written. The node works meanwhile.
//   3. A Kubernetes node is cordoned and drained; failures of this do not end the upgrade. A
//      control-plane node whose EPHEMERAL is to be emptied leaves etcd. A node that keeps it takes
//      its turn again, because etcd may have come to need the node meanwhile, and waits if it has.
//   4. One write makes the boot loader try the other slot, and the node reboots.
//
// A staged upgrade ends after step 2. The next reboot does step 3, without the drain, and step 4,
// before anything is stopped. The record stays unchanged meanwhile: it is the record of a staged
// upgrade before the boot loader's write, and after the write that of a system on trial.
//
// Without a reboot, there are no drain and no write of the boot loader: the new system is mounted
// beside the running one, and takes over (root-switch.h). It confirms itself as after a reboot.
//
// record-writer.h lists the durable writes and the state if a crash follows each. If a step fails
// without a crash, the node keeps its running system: the write of step 4 is revoked, the turn is
// given back, the node is uncordoned, and the record has the error. A node that has left etcd joins
// it again at its next boot.
#pragma once

#include "machined/upgrade/image-admission.h"
#include "machined/upgrade/image-source.h"
#include "machined/upgrade/record-writer.h"
#include "machined/upgrade/root-switch.h"
#include "machined/upgrade/slot-switch.h"
#include "machined/upgrade/upgrade-plan.h"
#include "machined/upgrade/upgrade-status.h"

namespace talos::machined {

// The caller of each method has made sure that the progress is idle, except for tryStaged().
class UpgradeSteps {
 public:
  struct Dependencies {
    kj::Timer& timer;
    UpgradableNode& node;
    UpgradeClusters& clusters;
    ImageSource& images;
    ImageAdmission& admission;
    SlotSwitch& slots;
    RecordWriter& records;
    UpgradeProgress& progress;
    kj::TaskSet& tasks;
    kj::Maybe<RootSwitch&> root;  // nullptr: this node reboots for each system
  };
  explicit UpgradeSteps(Dependencies deps) : deps(deps) {}
  KJ_DISALLOW_COPY_AND_MOVE(UpgradeSteps);

  // Upgrades. Resolves when the plan is accepted and being carried out. If it rejects, or its
  // promise is dropped before, nothing has changed.
  kj::Promise<void> upgrade(UpgradeRequest request);
  // Fetches and verifies an image, and changes nothing else. `keep`: keeps it for a later upgrade.
  kj::Promise<FetchedImage> fetch(UpgradeRequest request, bool keep);
  // Rolls back to the system of the other slot; resolves to nullptr when the reboot has begun.
  // Withdraws a staged system instead; resolves to its slot and version. Must run to its end even
  // if the caller has stopped waiting, because it may have made the boot loader's choice.
  kj::Promise<kj::Maybe<kj::String>> rollBack(unsigned healthTimeoutS, bool force, bool live);
  // Does the last steps of a staged upgrade, if there is one, as a part of a reboot. Does not
  // reject: after an error the system stays staged, the record has the error, and the reboot starts
  // the running system again.
  kj::Promise<void> tryStaged();
  // Reboots, after the boot loader's choice.
  kj::Promise<void> rebootIntoOther();

 private:
  Dependencies deps;

  kj::Promise<SlotSwitch::Facts> factsOf(const UpgradeRequest& request, const VerifiedImage& image,
                                         bool isSigned);
  kj::Promise<void> takeTurn(bool force);
  kj::Promise<void> leaveEtcd(const UpgradePlan& plan);
  kj::Promise<void> carryOut(kj::Own<const UpgradePlan> plan);
  kj::Promise<void> write(const UpgradePlan& plan);
  kj::Promise<void> abandon(const UpgradePlan& plan, bool begun, kj::String reason);
  kj::Promise<kj::Maybe<kj::String>> withdraw();
  kj::Promise<UpgradeRecord> planRollback(unsigned healthTimeoutS);
  kj::Promise<void> choosePrevious(UpgradeRecord next);
  void requireLive(bool preserve, bool stage);
  kj::Promise<void> takeOver(unsigned healthTimeoutS);
  struct Reached {
    bool turn = false, record = false;
  };
  kj::Promise<void> preparePrevious(UpgradeRecord next, bool force);
  kj::Promise<void> beginPrevious(UpgradeRecord next, bool force, Reached& reached);
  kj::Promise<void> enterPrevious();
  kj::Promise<void> chooseStaged();
  void begin(UpgradeRecord record);
};

}  // namespace talos::machined
