// The boot slots of this node, which a separate program
// (machined/disk/installer/boot-slot-writer.h) reads and changes, and EPHEMERAL, which an upgrade
// may empty. On a machine they are partitions of its system disk, in a container folders that its
// launcher has mounted.
//
// Nothing is cached: each call looks for the partitions again, and the program reads the disk. All
// calls reject with FailedPrecondition if there is no such disk, or more than one, and with the
// program's errors.
#pragma once

#include "machined/disk/devices/block-devices.h"
#include "machined/disk/installer/boot-slot-writer.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/services/containers/container-images.h"
#include "machined/upgrade/image-archives.h"

namespace talos::machined {

// Returns the partition of this name on the disk that has STATE and BOOT. Pure.
kj::String partitionOfSystem(kj::ArrayPtr<const BlockDevice> devices, kj::StringPtr name);

// The content of a slot: an unpacked image, or the places of its files in an archive.
using NewSystem = kj::OneOf<ImageView, ImageArchive>;

// The places on a node that an upgrade changes. A node without them has no slots.
class UpgradeVolumes {
 public:
  virtual ~UpgradeVolumes() noexcept(false) = default;

  // Returns the place of the slots (machined/disk/installer/slot-store.h). Changes nothing.
  virtual kj::Promise<kj::String> slots() = 0;
  // Returns the place of EPHEMERAL. Changes nothing.
  virtual kj::Promise<kj::String> ephemeral() = 0;
  // Empties the place that ephemeral() has returned: the data is lost. After an error or a crash it
  // is neither data nor empty; repeat the call from the beginning.
  virtual kj::Promise<void> empty(kj::String ephemeral) = 0;
};

class UpgradePartitions final : public UpgradeVolumes {
 public:
  using Devices = kj::Function<kj::Promise<kj::Vector<BlockDevice>>()>;
  UpgradePartitions(Installer& installer, Devices devices)
      : installer(installer), devices(kj::mv(devices)) {}

  kj::Promise<kj::String> slots() override { return partition("BOOT"); }
  kj::Promise<kj::String> ephemeral() override { return partition("EPHEMERAL"); }
  kj::Promise<void> empty(kj::String ephemeral) override;

 private:
  Installer& installer;
  Devices devices;

  kj::Promise<kj::String> partition(
      kj::StringPtr name);  // returns its device; `name` is a constant
};

class UpgradeFolders final : public UpgradeVolumes {
 public:
  // Runs `work` on the thread pool.
  using Blocking = kj::Function<kj::Promise<void>(kj::Function<void()> work)>;
  UpgradeFolders(kj::StringPtr slots, kj::StringPtr ephemeral, Blocking blocking)
      : slotsFolder(slots), ephemeralFolder(ephemeral), blocking(kj::mv(blocking)) {}

  kj::Promise<kj::String> slots() override { return kj::str(slotsFolder); }
  kj::Promise<kj::String> ephemeral() override { return kj::str(ephemeralFolder); }
  kj::Promise<void> empty(kj::String ephemeral) override;

 private:
  kj::StringPtr slotsFolder, ephemeralFolder;
  Blocking blocking;
};

class BootSlots {
 public:
  // Returns the place of the slots; called by each operation.
  using Place = kj::Function<kj::Promise<kj::String>()>;
  BootSlots(Installer& installer, Place place) : installer(installer), place(kj::mv(place)) {}

  // Returns the slot that the boot loader will start, and the systems that are complete. Changes
  // nothing.
  kj::Promise<install::SlotsOnDisk> look();
  // Sets the confirmed slot and, if given, the slot that the boot loader tries once. One write: a
  // crash leaves the old choice or the new one, and so does an error, after which the caller does
  // not know which. Rejects, and changes nothing, if a named slot has no system. The running system
  // is not affected.
  kj::Promise<void> choose(install::Slot confirmed, kj::Maybe<install::Slot> attempt,
                           unsigned healthTimeoutS);
  // Writes a system into a slot that is not the confirmed one, and returns the version of the then
  // complete system in it. The boot loader does not start it before choose(). After an error or a
  // crash the slot may have no system; the confirmed slot is unchanged. The caller keeps `system`.
  kj::Promise<kj::String> write(install::Slot slot, const NewSystem& system, kj::String arguments);
  struct Facts {
    kj::String version;
    kj::String configKeys;  // keys it knows: common/config/config-key-list.h; empty: not stated
  };
  // Returns the facts that the system itself states; writes nothing. The caller keeps `system`.
  kj::Promise<Facts> factsOf(const NewSystem& system);

 private:
  Installer& installer;
  Place place;
};

}  // namespace talos::machined
