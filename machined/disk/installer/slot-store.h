// The store of a node's two systems, and of the record that says which one is started.
//
// A machine has them on the partition BOOT, for GRUB: a kernel, an initramfs and an entry for each.
// A node in a container has them in a folder of its host, for its launcher, which uses the host's
// kernel and starts a root image; a slot has this image and its version. In both, the record is the
// same file grub/grubenv (boot-files.h), so all other code for slots is shared.
//
// Everything blocks, and throws FailedPrecondition for problems that a person can repair.
#pragma once

#include <kj/io.h>
#include <kj/vector.h>

#include "machined/disk/installer/boot-files.h"
#include "machined/disk/installer/installer-image.h"

namespace talos::install {

// A file with the digest of the bytes that were to be written.
struct WrittenFile {
  kj::StringPtr name;
  kj::String digest;
};

class SlotStore {
 public:
  virtual ~SlotStore() noexcept(false) = default;

  // Returns the folder with grub/, A/ and B/. A partition stays mounted until the folder is closed;
  // then everything written is where a boot loader reads it.
  virtual kj::AutoCloseFd open() = 0;
  // The files of a slot. A slot that lacks any of them is not a system; the last file is written
  // last.
  virtual kj::ArrayPtr<const kj::StringPtr> files() const = 0;
  virtual kj::String lastFile(Slot slot, kj::StringPtr version, kj::StringPtr arguments) const = 0;
  // Throws if the image's files are larger than the free space and the slot's present files; the
  // message says what would fit.
  virtual void requireRoom(int top, Slot slot, InstallerImage& image) const = 0;
  // Writes all files but the last, each compared with the image's list; they are on the disk when
  // it returns. The returned files must be read again.
  virtual kj::Vector<WrittenFile> fill(int top, Slot slot, InstallerImage& from) = 0;
  // Puts the names that were added to or removed from the slot's folder on the disk before it
  // returns.
  virtual void sync(int top, Slot slot) = 0;
};

// `place` must outlive it. A folder is a folder of slots; anything else is the node of a partition.
kj::Own<SlotStore> slotStoreAt(kj::StringPtr place);

}  // namespace talos::install
