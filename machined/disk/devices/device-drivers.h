// Loads the drivers of devices, at boot and while the machine runs.
#pragma once

#include <kj/async-unix.h>
#include <kj/function.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "machined/disk/devices/device-events.h"
#include "machined/process1/modprobe/kernel-modules.h"

namespace talos::machined {

// Loads the drivers of disks by the modaliases of the devices; no other part of this system does.
// Idempotent and blocking, like all of machined/process1/modprobe/kernel-modules.h. `failed` is
// called for each module that the kernel refuses; the others are loaded nevertheless.

// Loads the drivers of controllers and of the disks on them; when it returns, they are loaded.
void loadDiskDrivers(const Modules& modules, kj::Function<void(kj::StringPtr)> failed,
                     kj::StringPtr sys = "/sys");

// Loads the drivers of devices on SCSI (and SATA) controllers: disks, and CD-ROM drives if
// `cdroms`.
void loadScsiDrivers(const Modules& modules, bool cdroms, kj::Function<void(kj::StringPtr)>& failed,
                     kj::StringPtr sys = "/sys");

// Loads the drivers of devices that appear while the machine runs: devices that are plugged in, and
// devices that a controller finds after its own driver was loaded (disks of SAS and USB, cards on a
// hub). It uses the modaliases in the kernel's uevents.
//
// Keeps no state. All present devices count as new when events were lost, and in a brain that
// replaces another one and may have missed some. Loading is idempotent
// (machined/process1/modprobe/kernel-modules.h).

// Returns the modalias of the device that this kernel event adds; nullptr if it adds no device that
// a module could drive. Any bytes are accepted.
kj::Maybe<kj::StringPtr> modaliasOfNewDevice(kj::ArrayPtr<const char> uevent);

class HotplugDrivers {
 public:
  // Devices to load modules for. With `all`, for all devices, because some may be missing from the
  // list.
  struct New {
    kj::Vector<kj::String> modaliases;
    bool all = false;
  };
  using Load = kj::Function<kj::Promise<void>(New devices)>;

  // With `all`, begins with all devices. Without such a socket in the kernel it does nothing else.
  HotplugDrivers(kj::UnixEventPort& port, kj::Timer& timer, bool all, Load load);
  KJ_DISALLOW_COPY_AND_MOVE(HotplugDrivers);

 private:
  kj::Timer& timer;
  New found;
  Load load;
  UeventSocket events;
  kj::Promise<void> running;

  void collect();
  kj::Promise<void> run(bool all);
};

}  // namespace talos::machined
