// Empties a disk or a partition that nothing uses, so that the node and other systems find nothing
// on it; or overwrites all of it.
//
// The partitions are overwritten before the disk, and the beginning of the disk, with the partition
// table, is the last part. A power cut leaves a device that is partly overwritten: wipe it again.
#pragma once

#include "machined/disk/installer/confinement.h"
#include "machined/disk/installer/system-installation.h"

namespace talos::install {

struct WipedRange {
  uint64_t offset, size;  // bytes
};
// Returns the parts to overwrite, in their order. `partitions`: those of a disk of so many bytes,
// as the kernel has them. Pure.
kj::Vector<WipedRange> rangesToWipe(uint64_t bytes, kj::ArrayPtr<const WipedRange> partitions,
                                    bool zeroes);

// Overwrites the device, and makes the kernel read its partitions. Blocks. NotFound without such a
// device, FailedPrecondition if it is in use; nothing is changed then.
void wipeDevice(kj::StringPtr path, bool zeroes, Say& say, Confinement& confinement);

}  // namespace talos::install
