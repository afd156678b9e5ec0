// machine.watchdog: makes process 1 hold and feed the watchdog device of the config
// (machined/process1/init/held-watchdog.h).
//
// A crash of the brain at any line: a device that process 1 holds continues, and the next brain
// finds it with its timeout; a device that was opened and not handed over runs, and the next brain
// has its timeout to open it again. A device that refuses the timeout is fed with its own, which
// running() reports.
#pragma once

#include "machined/process1/process1.h"
#include "machined/process1/uv-loop.h"
#include "machined/system/kernel-setting.h"
#include "machined/system/watchdog-device.h"

namespace talos::machined {

struct WantedWatchdog {
  kj::String device;
  unsigned seconds;
};
// Returns nullptr if the config has no watchdog.
kj::Maybe<WantedWatchdog> wantedWatchdog(config::Machine::Reader machine);

class Watchdog {
 public:
  Watchdog(UvLoop& uv, Process1& process1, WatchdogDevices& devices, KernelScope scope)
      : uv(uv), process1(process1), devices(devices), scope(scope) {}

  // Fails with the error if the device is not as configured; Unimplemented in a container. Calls do
  // their work one at a time.
  kj::Promise<void> apply(kj::Maybe<WantedWatchdog> wanted);

  struct Running {
    kj::String device;
    unsigned seconds;
  };
  kj::Maybe<const Running&> running() const;  // as the latest apply() left it

 private:
  struct Held {
    kj::AutoCloseFd fd;  // process 1 has a duplicate
    Running running;
  };
  UvLoop& uv;
  Process1& process1;
  WatchdogDevices& devices;
  KernelScope scope;
  bool recovered = false;
  kj::Maybe<Held> held;
  kj::ForkedPromise<void> last = kj::Promise<void>(kj::READY_NOW).fork();

  kj::Promise<void> follow(kj::Maybe<WantedWatchdog> wanted);
  kj::Promise<void> recover();
  kj::Promise<void> stop();
  kj::Promise<void> start(kj::String device);
  kj::Promise<void> setTimeout(unsigned seconds);
};

}  // namespace talos::machined
