// machine.watchdog: has process 1 hold and feed the watchdog device of the config
// (machined/process1/init/held-watchdog.h).
//
// A crash of the brain at any line: a device that process 1 holds goes on, and the next brain finds
// it there with its timeout; one that was opened and not handed over runs, and the next brain has
// its timeout to open it again. A device that refuses the timeout is fed with its own, which
// running() says.
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
// None: the config has none.
kj::Maybe<WantedWatchdog> wantedWatchdog(config::Machine::Reader machine);

class Watchdog {
 public:
  Watchdog(UvLoop& uv, Process1& process1, WatchdogDevices& devices, KernelScope scope)
      : uv(uv), process1(process1), devices(devices), scope(scope) {}

  // Fails with the reason when it is not as it was asked for; Unimplemented in a container. One
  // call at a time does its work.
  kj::Promise<void> apply(kj::Maybe<WantedWatchdog> wanted);

  struct Running {
    kj::String device;
    unsigned seconds;
  };
  kj::Maybe<const Running&> running() const;  // as the newest apply() left it

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
