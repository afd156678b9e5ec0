// The watchdog devices of the kernel (Documentation/watchdog/watchdog-api.rst and the class
// watchdog of sysfs, Documentation/ABI/testing/sysfs-class-watchdog).
//
// Opening one starts it; it is stopped by process 1 (machined/process1/init/held-watchdog.h), not
// here. Blocking, but short: registers of a device. An interface, for a model in tests.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

namespace talos::machined {

class WatchdogDevices {
 public:
  virtual ~WatchdogDevices() noexcept(false) = default;
  // NotFound, Conflict when another process has it, or the kernel's reason.
  virtual kj::AutoCloseFd open(kj::StringPtr device) = 0;
  virtual kj::String deviceOf(int fd) = 0;  // "/dev/watchdog0"
  // In seconds; fails with the kernel's reason. A device may round: ask for its timeout.
  virtual void setTimeout(int fd, unsigned seconds) = 0;
  virtual unsigned timeout(int fd) = 0;
  // Its driver does not let it be stopped.
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
