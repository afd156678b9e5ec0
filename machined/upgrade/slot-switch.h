// The slots of the node: the only place that writes a system into a slot, and that makes the boot
// loader start another one. Other code reads the slots through it. A separate program
// (machined/disk/installer/boot-slot-writer.h) reads and changes them.
//
// Two of its writes decide, each by one sector of BOOT: arm(), from which on the next start is that
// of the other slot, and confirm(), from which on every start is that of the running one. A crash
// leaves the old choice or the new one. Neither affects the running system. If the disk has written
// a choice and reported a failure, the choice counts; so a caller whose upgrade fails after arm()
// calls revoke().
//
// Nothing is cached: the program reads the disk for each call. All calls reject with the errors of
// UpgradeVolumes::slots(), and with the program's errors.
#pragma once

#include "machined/disk/installer/boot-slot-writer.h"
#include "machined/upgrade/upgrade-environment.h"
#include "machined/upgrade/upgrade-plan.h"
#include "machined/upgrade/upgrade-volumes.h"

namespace talos::machined {

class SlotSwitch {
 public:
  struct Dependencies {
    Installer& installer;
    UpgradableNode& node;
    kj::Maybe<UpgradeVolumes&> volumes;  // nullptr: no slots; no method may be called
    kj::Maybe<install::Slot> running;    // nullptr: as for `volumes`
  };
  explicit SlotSwitch(Dependencies deps) : deps(deps) {}
  KJ_DISALLOW_COPY_AND_MOVE(SlotSwitch);

  // Returns the slots as the boot loader will find them, and their complete systems. Changes
  // nothing.
  kj::Promise<install::SlotsOnDisk> look();
  struct Facts {
    kj::String version;
    kj::String configKeys;  // keys it knows: common/config/config-key-list.h; empty: not stated
  };
  // Returns the facts that an image states about itself; writes nothing. Rejects if the image is
  // too large for the other slot. The caller keeps `system`.
  kj::Promise<Facts> factsOf(const NewSystem& system);

  // Writes a system into the other slot, which no start tries any more from then on, and returns
  // its version. After a crash or an error the slot has no system. The caller keeps `system`.
  kj::Promise<kj::String> write(const NewSystem& system);
  // Makes the next start try the other slot, once. Unless its system is confirmed, the running one,
  // which counts as confirmed, is started afterwards. Rejects, and changes nothing, if the slot has
  // no system.
  kj::Promise<void> arm(unsigned healthTimeoutS);
  // Makes the running system the confirmed one, and lets no start try another one.
  kj::Promise<void> confirm();
  // Does the same after an arm() that has failed, or was in vain. Does not reject: announces the
  // error, because the next start may then be that of the other slot.
  kj::Promise<void> revoke();

 private:
  Dependencies deps;

  kj::Promise<kj::String> place();
  install::Slot running() const;
  // Confirms the running system, and names the slot to try once, if given: one write.
  kj::Promise<void> choose(kj::Maybe<install::Slot> attempt, unsigned healthTimeoutS);
};

}  // namespace talos::machined
