// Loads the drivers of devices that appear while the machine runs: devices that are plugged in, and
// devices that a controller finds after its own driver was loaded (disks of SAS and USB, cards on a
// hub). It uses the modaliases in the kernel's uevents.
//
// Keeps no state. All present devices count as new when events were lost, and in a brain that
// replaces another one and may have missed some. Loading is idempotent
// (machined/process1/modprobe/kernel-modules.h).
#pragma once

#include <kj/async-unix.h>
#include <kj/function.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "machined/disk/devices/device-events.h"

namespace talos::machined {

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
