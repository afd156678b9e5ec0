// The two systems of a node, of which one runs: another one is written into the other slot, and
// which one is started is chosen (boot-files.h says how a boot loader reads that). Where they are,
// slot-store.h says: `place` is the node of the partition BOOT, or a folder of slots.
//
// upgrade() does, in this order:
//   1. nothing is to be tried any more, and the other slot is emptied;
//   2. the files of the image are written, each compared with the image's list of digests;
//   3. BOOT is unmounted, which brings everything to where the boot loader reads it: that one does
//      not know the journal. A folder has nothing to unmount: its files are synced one by one;
//   4. the files are read from the disk and compared, and the last one makes the slot a system.
// A cut at any write leaves the slot that runs as it was, and the only one that is started: the new
// one is, once, when choose() has said so. That is one write of one sector, in place.
//
// All functions block, and throw with messages for people. Each enters the confinement before it
// reads the image or BOOT (confinement.h).
#pragma once

#include <kj/function.h>
#include <kj/vector.h>

#include "machined/disk/installer/boot-files.h"
#include "machined/disk/installer/confinement.h"
#include "machined/disk/installer/installer-image.h"

namespace talos::install {

// FailedPrecondition when it is no installer image, or damaged. Returns its version.
kj::String upgrade(kj::StringPtr place, Slot slot, const ImageSource& image,
                   kj::StringPtr arguments, kj::Function<void(kj::StringPtr)>& say,
                   Confinement& confinement);

// The version that it says it has; FailedPrecondition as upgrade().
struct ImageFacts {
  kj::String version, configKeys;  // as of InstallerImage
};
ImageFacts factsOf(const ImageSource& image, Confinement& confinement);

struct SlotsOnDisk {
  SlotState state;
  kj::Vector<WholeSystem> systems;
};
SlotsOnDisk readSlotsOf(kj::StringPtr place, Confinement& confinement);

// `state` as it is from the next start on. NotFound when there is no system in a slot that it
// names.
void choose(kj::StringPtr place, const SlotState& state, Confinement& confinement);

// The first bytes of a partition that is in no use become zero.
void clearHead(kj::StringPtr device, uint64_t bytes, Confinement& confinement);

}  // namespace talos::install
