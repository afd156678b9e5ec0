// The watchdog devices of the kernel (Documentation/watchdog/watchdog-api.rst and the class
// watchdog of sysfs, Documentation/ABI/testing/sysfs-class-watchdog).
//
// Opening a device starts it; process 1 stops it (machined/process1/init/held-watchdog.h).
// Blocking, but short: registers of a device. An interface, for a model in tests.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

namespace talos::machined {

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

}  // namespace talos::machined
