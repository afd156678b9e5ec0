// The two systems of a node, one of which runs. Writes another system into the other slot, and
// chooses which system is started (boot-files.h says how a boot loader reads this choice). `place`
// is the node of the partition BOOT, or a folder of slots (slot-store.h).
//
// upgrade() does, in this order:
//   1. It refuses an image for which the slot would have no room. It records that no slot is to be
//      tried any more, and empties the other slot;
//   2. it writes the files of the image, and compares each with the image's list of digests;
//   3. it unmounts BOOT, so that everything is written where the boot loader, which does not know
//      the journal, reads it. A folder has nothing to unmount: its files are synced one by one;
//   4. it reads the files from the disk, compares them, and writes the last file, which makes the
//      slot a system.
// A cut at any write leaves the running slot unchanged, and the only one that is started. The new
// slot is started, once, only after choose() has chosen it: by one write of one sector, in place.
//
// All functions block, and throw with human-readable messages. Each enters the confinement before
// it reads the image or BOOT (confinement.h).
#pragma once

#include <kj/function.h>
#include <kj/vector.h>

#include "machined/disk/installer/boot-files.h"
#include "machined/disk/installer/confinement.h"
#include "machined/disk/installer/installer-image.h"

namespace talos::install {

// Writes the image into `slot` and returns its version. FailedPrecondition if it is not an
// installer image, or damaged, or too large, or if `slot` is the confirmed one. After an error the
// slot may have no system; the confirmed slot is unchanged.
kj::String upgrade(kj::StringPtr place, Slot slot, const ImageSource& image,
                   kj::StringPtr arguments, kj::Function<void(kj::StringPtr)>& say,
                   Confinement& confinement);

// Returns the version that the image states; FailedPrecondition as upgrade(), also if it is too
// large for `slot`. Writes nothing.
struct ImageFacts {
  kj::String version, configKeys;  // as of InstallerImage
};
struct SlotAt {
  kj::StringPtr place;
  Slot slot;
};
ImageFacts factsOf(const ImageSource& image, kj::Maybe<SlotAt> slot, Confinement& confinement);

struct SlotsOnDisk {
  SlotState state;
  kj::Vector<WholeSystem> systems;
};
SlotsOnDisk readSlotsOf(kj::StringPtr place, Confinement& confinement);

// Makes `state` the state from the next start on, by one write; the running system is not affected.
// NotFound, and nothing is changed, if it names a slot without a system.
void choose(kj::StringPtr place, const SlotState& state, Confinement& confinement);

// Overwrites the first bytes of an unused partition with zeros; they are on the disk when it
// returns. FailedPrecondition, and nothing is changed, if the partition cannot be opened alone.
void clearHead(kj::StringPtr device, uint64_t bytes, Confinement& confinement);

}  // namespace talos::install
