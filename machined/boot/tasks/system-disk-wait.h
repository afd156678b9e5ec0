// The wait for the disk that the boot loader took this system from: META with the promise of a
// reset and STATE with the config are on it.
#pragma once

#include "machined/disk/devices/block-devices.h"
#include "machined/disk/devices/disk-wait.h"

namespace talos::machined {

// One of them has the first partition of a system that is needed and the last: the kernel adds them
// one after the other. Pure.
bool hasSystemDisk(kj::ArrayPtr<const BlockDevice> devices);

// Resolves when `isThere` says so, or after kDiskWait: who needs the disk knows best why it cannot
// be used (machined/disk/volumes/state-volume.h). `report` gets a line when it has to wait, and one
// when it was in vain.
kj::Promise<void> awaitSystemDisk(kj::Timer& timer, kj::Function<kj::Promise<bool>()> isThere,
                                  kj::Function<void(kj::StringPtr line)> report);

}  // namespace talos::machined
