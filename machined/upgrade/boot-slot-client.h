// The slots of this node's system disk, as the program that works on them
// (machined/disk/installer/boot-slot-writer.h) reads and changes them, and the other partitions of
// that disk.
//
// Nothing is remembered: the disk is looked for each time, and the program reads what is on it. All
// of them reject with FailedPrecondition when there is no such disk, or more than one, and as the
// program does.
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

class BootSlots {
 public:
  using Devices = kj::Function<kj::Promise<kj::Vector<BlockDevice>>()>;
  BootSlots(Installer& installer, Devices devices)
      : installer(installer), devices(kj::mv(devices)) {}

  kj::Promise<kj::String> partition(kj::StringPtr name);  // its device; the name is a constant
  // The slot that the boot loader will start, and the systems that are whole.
  kj::Promise<install::SlotsOnDisk> look();
  // One write: from there on the next start is that.
  kj::Promise<void> choose(install::Slot confirmed, kj::Maybe<install::Slot> attempt,
                           unsigned healthTimeoutS);
  // The version of the system that is whole in the slot then. The caller keeps `system`.
  kj::Promise<kj::String> write(install::Slot slot, const NewSystem& system, kj::String arguments);
  // The version that it says it has; nothing is written. The caller keeps `system`.
  kj::Promise<kj::String> versionOf(const NewSystem& system);

 private:
  Installer& installer;
  Devices devices;
};

}  // namespace talos::machined
