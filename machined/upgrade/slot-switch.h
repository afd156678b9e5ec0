// The slots of the node: the only place that writes a system into a slot, and that makes the boot
// loader start another one. Other code reads the slots through it.
//
// Two of its writes decide, each by one sector of BOOT
// (machined/disk/installer/boot-slot-writer.h): arm(), from which on the next start is that of the
// other slot, and confirm(), from which on every start is that of the running one. A crash leaves
// the old choice or the new one. Neither affects the running system. If the disk has written a
// choice and reported a failure, the choice counts; so a caller whose upgrade fails after arm()
// calls revoke().
#pragma once

#include <kj/debug.h>

#include "machined/upgrade/boot-slot-client.h"
#include "machined/upgrade/upgrade-environment.h"

namespace talos::machined {

class SlotSwitch {
 public:
  struct Dependencies {
    Installer& installer;
    UpgradableNode& node;
    kj::Maybe<UpgradeVolumes&> volumes;  // nullptr: no slots; no method may be called
    kj::Maybe<install::Slot> running;    // nullptr: as for `volumes`
  };
  explicit SlotSwitch(Dependencies deps)
      : deps(deps),
        slots(deps.installer, [this]() { return KJ_REQUIRE_NONNULL(this->deps.volumes).slots(); }) {
  }
  KJ_DISALLOW_COPY_AND_MOVE(SlotSwitch);

  // Returns the slots as the boot loader will find them, and their complete systems.
  kj::Promise<install::SlotsOnDisk> look() { return slots.look(); }
  // Returns the facts that an image states about itself; writes nothing. The caller keeps `system`.
  kj::Promise<BootSlots::Facts> factsOf(const NewSystem& system) { return slots.factsOf(system); }

  // Writes a system into the other slot, which no start tries any more from then on, and returns
  // its version. After a crash or an error the slot has no system. The caller keeps `system`.
  kj::Promise<kj::String> write(const NewSystem& system);
  // Makes the next start try the other slot, once. Unless its system is confirmed, the running one,
  // which counts as confirmed, is started afterwards.
  kj::Promise<void> arm(unsigned healthTimeoutS);
  // Makes the running system the confirmed one, and lets no start try another one.
  kj::Promise<void> confirm();
  // Does the same after an arm() that has failed, or was in vain. Does not reject: announces the
  // error, because the next start may then be that of the other slot.
  kj::Promise<void> revoke();

 private:
  Dependencies deps;
  BootSlots slots;
};

}  // namespace talos::machined
