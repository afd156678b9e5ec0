// Loads the drivers of devices that come while the machine runs: what is plugged in, and what a
// controller finds by itself after its driver was loaded (disks of SAS and USB, cards behind a
// hub). By the modaliases of the kernel's uevents.
//
// Nothing is kept: when events were lost, and in a brain that came after another one, which may
// have missed some, all devices that there are count as new. Loading is idempotent
// (machined/process1/modprobe/kernel-modules.h).
#pragma once

#include <kj/async-unix.h>
#include <kj/function.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "machined/disk/devices/device-events.h"

namespace talos::machined {

// The modalias of the device that this event of the kernel adds. None: it adds none that a module
// could drive. Anything is parsed.
kj::Maybe<kj::StringPtr> modaliasOfNewDevice(kj::ArrayPtr<const char> uevent);

class HotplugDrivers {
 public:
  // Loads the modules for these; for all devices, if some may be missing from the list.
  struct New {
    kj::Vector<kj::String> modaliases;
    bool all = false;
  };
  using Load = kj::Function<kj::Promise<void>(New devices)>;

  // `all`: begins with all devices. Where the kernel gives no such socket it does nothing else.
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
