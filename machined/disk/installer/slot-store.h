// Where the two systems of a node are, beside the record that says which of them is started.
//
// A machine has them on the partition BOOT, for GRUB: a kernel, an initramfs and an entry each. A
// node in a container has them in a folder of its host, for its launcher, which has the host's
// kernel and starts a root image: that, and its version. The record is the same file grub/grubenv
// in both (boot-files.h), so that everything else about slots is the same code.
//
// Everything blocks, and throws FailedPrecondition for what a person can mend.
#pragma once

#include <kj/io.h>
#include <kj/vector.h>

#include "machined/disk/installer/boot-files.h"
#include "machined/disk/installer/installer-image.h"

namespace talos::install {

// With the digest of what was to be written.
struct WrittenFile {
  kj::StringPtr name;
  kj::String digest;
};

class SlotStore {
 public:
  virtual ~SlotStore() noexcept(false) = default;

  // The folder that has grub/, A/ and B/. That of a partition is mounted until it is closed, and
  // what has been written is then where a boot loader reads it.
  virtual kj::AutoCloseFd open() = 0;
  // Of a slot. One that lacks any of them is no system; the last is written last.
  virtual kj::ArrayPtr<const kj::StringPtr> files() const = 0;
  virtual kj::String lastFile(Slot slot, kj::StringPtr version, kj::StringPtr arguments) const = 0;
  // All files but the last, on the disk when it returns, each compared with the image's list. Those
  // that are returned are to be read again.
  virtual kj::Vector<WrittenFile> fill(int top, Slot slot, InstallerImage& from) = 0;
  // Names that were added to the slot's folder, or removed, are on the disk.
  virtual void sync(int top, Slot slot) = 0;
};

// `place` stays. A folder is one of slots, everything else the node of a partition.
kj::Own<SlotStore> slotStoreAt(kj::StringPtr place);

}  // namespace talos::install
