// machine.watchdog: makes process 1 hold and feed the watchdog device of the config
// (machined/process1/init/held-watchdog.h).
//
// A crash of the brain at any line: a device that process 1 holds continues, and the next brain
// finds it with its timeout; a device that was opened and not handed over runs, and the next brain
// has its timeout to open it again. A device that refuses the timeout is fed with its own, which
// running() reports.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

#include "machined/process1/process1.h"
#include "machined/process1/uv-loop.h"
#include "machined/system/kernel-setting.h"

namespace talos::machined {

// The watchdog devices of the kernel (Documentation/watchdog/watchdog-api.rst and the class
// watchdog of sysfs, Documentation/ABI/testing/sysfs-class-watchdog).
//
// Opening a device starts it; process 1 stops it (machined/process1/init/held-watchdog.h).
// Blocking, but short: registers of a device. An interface, for a model in tests.

class WatchdogDevices {
 public:
  virtual ~WatchdogDevices() noexcept(false) = default;
  // Fails with NotFound, Conflict if another process has it open, or the kernel's error.
  virtual kj::AutoCloseFd open(kj::StringPtr device) = 0;
  virtual kj::String deviceOf(int fd) = 0;  // "/dev/watchdog0"
  // Sets the timeout in seconds; fails with the kernel's error. A device may round it: read it
  // back.
  virtual void setTimeout(int fd, unsigned seconds) = 0;
  virtual unsigned timeout(int fd) = 0;
  // Returns true if the driver does not allow stopping the device.
  virtual bool endless(kj::StringPtr device) = 0;
};

class KernelWatchdogs final : public WatchdogDevices {
 public:
  explicit KernelWatchdogs(kj::StringPtr sys = "/sys/class/watchdog") : sys(kj::str(sys)) {}
  kj::AutoCloseFd open(kj::StringPtr device) override;
  kj::String deviceOf(int fd) override;
  void setTimeout(int fd, unsigned seconds) override;
  unsigned timeout(int fd) override;
  bool endless(kj::StringPtr device) override;

 private:
  kj::String sys;
};

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
