// The two systems on the partition BOOT, of which one runs: another one is written into the other
// slot, and which one is started is chosen (boot-files.h says how the boot loader reads that).
//
// upgrade() does, in this order:
//   1. nothing is to be tried any more, and the other slot is emptied;
//   2. the files of the image are written, each compared with the image's list of digests;
//   3. BOOT is unmounted, which brings everything to where the boot loader reads it: that one does
//      not know the journal;
//   4. BOOT is mounted again, and the files are read from the disk and compared.
// A cut at any write leaves the slot that runs as it was, and the only one that is started: the new
// one is, once, when choose() has said so. That is one write of one sector, in place.
//
// All functions block, and throw with messages for people. `device` is the node of BOOT.
#pragma once

#include <kj/function.h>
#include <kj/one-of.h>
#include <kj/vector.h>

#include "machined/disk/installer/boot-files.h"

namespace talos::install {

// The file system of an image, as containerd gives it.
struct ImageMount {
  kj::String type, source;  // "bind" or "overlay"
  kj::Vector<kj::String> options;
};

// An archive that is open, and where in it the files of the folder usr/install are.
struct ImageInArchive {
  int archive;
  struct Part {
    kj::String name;
    uint64_t offset, size;
  };
  kj::Vector<Part> parts;
};

using ImageSource = kj::OneOf<ImageMount, ImageInArchive>;

// FailedPrecondition when it is no installer image, or damaged. Returns its version.
kj::String upgrade(kj::StringPtr device, Slot slot, const ImageSource& image,
                   kj::StringPtr arguments, kj::Function<void(kj::StringPtr)>& say);

// The version that it says it has; FailedPrecondition as upgrade().
kj::String versionOf(const ImageSource& image);

struct SlotsOnDisk {
  SlotState state;
  kj::Vector<WholeSystem> systems;
};
SlotsOnDisk readSlotsOf(kj::StringPtr device);

// `state` as it is from the next start on. NotFound when there is no system in a slot that it
// names.
void choose(kj::StringPtr device, const SlotState& state);

// The first bytes of a partition that is in no use become zero.
void clearHead(kj::StringPtr device, uint64_t bytes);

}  // namespace talos::install
