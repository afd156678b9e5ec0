// The wait for the disk that the boot loader took this system from. Disks on USB and of some
// controllers appear seconds after the drivers were loaded; META with the promise of a reset and
// STATE with the config are on it.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "machined/disk/devices/block-devices.h"

namespace talos::machined {

// One of them has the first partition of a system that is needed and the last: the kernel adds them
// one after the other. Pure.
bool hasSystemDisk(kj::ArrayPtr<const BlockDevice> devices);

constexpr auto kSystemDiskTimeout = 60 * kj::SECONDS;

// Resolves when `isThere` says so, which is asked again and again, for the kernel tells of a disk
// before it knows of its partitions; or after kSystemDiskTimeout: who needs the disk knows best why
// it cannot be used (machined/disk/volumes/state-volume.h). `report` gets a line when it has to
// wait, and one when it was in vain.
kj::Promise<void> awaitSystemDisk(kj::Timer& timer, kj::Function<kj::Promise<bool>()> isThere,
                                  kj::Function<void(kj::StringPtr line)> report);

}  // namespace talos::machined
