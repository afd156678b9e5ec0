// Loads the drivers of disks, which nothing else does on this system, by the modaliases of the
// devices. Idempotent and blocking, like all of machined/process1/modprobe/kernel-modules.h. What
// the kernel refuses is reported to `failed` and does not stop the rest.
#pragma once

#include "machined/process1/modprobe/kernel-modules.h"

namespace talos::machined {

// Controllers, and the disks on them: there when it returns.
void loadDiskDrivers(const Modules& modules, kj::Function<void(kj::StringPtr)> failed,
                     kj::StringPtr sys = "/sys");

// For what hangs on SCSI (and SATA) controllers: disks, and CD-ROM drives if asked for.
void loadScsiDrivers(const Modules& modules, bool cdroms, kj::Function<void(kj::StringPtr)>& failed,
                     kj::StringPtr sys = "/sys");

}  // namespace talos::machined
