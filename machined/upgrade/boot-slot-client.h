// The slots of this node, as the program that works on them
// (machined/disk/installer/boot-slot-writer.h) reads and changes them, and EPHEMERAL, which an
// upgrade may empty: on a machine they are partitions of its system disk, in a container folders
// that its launcher has mounted.
//
// Nothing is remembered: they are looked for each time, and the program reads what is on the disk.
// All of them reject with FailedPrecondition when there is no such disk, or more than one, and as
// the program does.
#pragma once

#include "machined/disk/devices/block-devices.h"
#include "machined/disk/installer/boot-slot-writer.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/services/containers/container-images.h"
#include "machined/upgrade/image-archives.h"

namespace talos::machined {

// The partition of this name on the disk that has STATE and BOOT. Pure.
kj::String partitionOfSystem(kj::ArrayPtr<const BlockDevice> devices, kj::StringPtr name);

// The content of a slot: an image that is unpacked, or the places of its files in an archive.
using NewSystem = kj::OneOf<ImageView, ImageArchive>;

// Where a node has what an upgrade changes. A node that has none has no slots.
class UpgradeVolumes {
 public:
  virtual ~UpgradeVolumes() noexcept(false) = default;

  virtual kj::Promise<kj::String> slots() = 0;  // a place of machined/disk/installer/slot-store.h
  virtual kj::Promise<kj::String> ephemeral() = 0;
  // Of the name that ephemeral() has given. Cut off, it is repeated from its beginning.
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

  kj::Promise<kj::String> partition(kj::StringPtr name);  // its device; the name is a constant
};

class UpgradeFolders final : public UpgradeVolumes {
 public:
  // `blocking`: on the thread pool.
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
  // Each call asks for the place.
  using Place = kj::Function<kj::Promise<kj::String>()>;
  BootSlots(Installer& installer, Place place) : installer(installer), place(kj::mv(place)) {}

  // The slot that the boot loader will start, and the systems that are whole.
  kj::Promise<install::SlotsOnDisk> look();
  // One write: from there on the next start is that.
  kj::Promise<void> choose(install::Slot confirmed, kj::Maybe<install::Slot> attempt,
                           unsigned healthTimeoutS);
  // The version of the system that is whole in the slot then. The caller keeps `system`.
  kj::Promise<kj::String> write(install::Slot slot, const NewSystem& system, kj::String arguments);
  struct Facts {
    kj::String version;
    kj::String
        configKeys;  // that it knows: common/config/config-key-list.h; empty: it does not say
  };
  // By its own account; nothing is written. The caller keeps `system`.
  kj::Promise<Facts> factsOf(const NewSystem& system);

 private:
  Installer& installer;
  Place place;
};

}  // namespace talos::machined
