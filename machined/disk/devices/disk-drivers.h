// Loads the drivers of disks by the modaliases of the devices; no other part of this system does.
// Idempotent and blocking, like all of machined/process1/modprobe/kernel-modules.h. `failed` is
// called for each module that the kernel refuses; the others are loaded nevertheless.
#pragma once

#include "machined/process1/modprobe/kernel-modules.h"

namespace talos::machined {

// Loads the drivers of controllers and of the disks on them; when it returns, they are loaded.
void loadDiskDrivers(const Modules& modules, kj::Function<void(kj::StringPtr)> failed,
                     kj::StringPtr sys = "/sys");

// Loads the drivers of devices on SCSI (and SATA) controllers: disks, and CD-ROM drives if
// `cdroms`.
void loadScsiDrivers(const Modules& modules, bool cdroms, kj::Function<void(kj::StringPtr)>& failed,
                     kj::StringPtr sys = "/sys");

}  // namespace talos::machined
