// Waits for the disk that the boot loader loaded this system from: it holds META with the promise
// of a reset, and STATE with the config.
#pragma once

#include "machined/disk/devices/block-devices.h"
#include "machined/disk/devices/device-events.h"

namespace talos::machined {

// Returns true if one of the devices has both the first and the last required partition of a
// system: the kernel adds partitions one after the other. Pure.
bool hasSystemDisk(kj::ArrayPtr<const BlockDevice> devices);

// Resolves when `isThere` does so with true, or after kDiskWait: the users of the disk report best
// why it cannot be used (machined/disk/volumes/state-volume.h). `report` gets a line if the call
// has to wait, and another one if it waited in vain.
kj::Promise<void> awaitSystemDisk(kj::Timer& timer, kj::Function<kj::Promise<bool>()> isThere,
                                  kj::Function<void(kj::StringPtr line)> report);

}  // namespace talos::machined
