// PCIDriverRebindConfig: devices on PCI get another driver than the one that the kernel chooses
// (Documentation/ABI/testing/sysfs-bus-pci: driver_override), when the boot has loaded the modules
// and when the config changes.
//
// A device keeps its present driver until the other one is loaded. A device that is removed from
// the config gets its driver back as the kernel chooses it; a device that has not lost its driver
// is not unbound, because it may be a disk in use. A file in memory notes each device with its
// driver before it is changed, so the next brain restores it after a crash at any line. All are
// attempted; each failure is a problem with its cause. A device without an IOMMU group is a
// warning, once, because programs that use the device reach all memory. In a container nothing is
// written, because the kernel is the host's.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "machined/system/kernel-setting.h"

namespace talos::machined {

struct WantedDriver {
  kj::String device;  // 0000:04:00.0
  kj::String driver;
};
kj::Vector<WantedDriver> wantedDrivers(config::Machine::Reader machine);

// Writes files below /sys; an interface, for a model in tests that moves devices as the kernel
// does.
class SysfsWriter {
 public:
  virtual ~SysfsWriter() noexcept(false) = default;
  // Fails with NotFound or the kernel's error. `path` is relative to /sys.
  virtual void write(kj::StringPtr path, kj::StringPtr value) = 0;
};
kj::Own<SysfsWriter> sysfsWriter(kj::StringPtr sys = "/sys");

// Blocking calls, from any thread; they do their work one at a time.
class PciDrivers {
 public:
  struct Problems {
    SettingProblems settings;
    kj::Vector<kj::String> warnings;  // new ones; the devices are as configured
  };

  // "/sys", "/system/run/pci-drivers"
  PciDrivers(kj::StringPtr sys, kj::StringPtr notes, KernelScope scope = KernelScope::kAll)
      : PciDrivers(sys, notes, scope, sysfsWriter(sys)) {}
  PciDrivers(kj::StringPtr sys, kj::StringPtr notes, KernelScope scope, kj::Own<SysfsWriter> writer)
      : sys(kj::str(sys)), notes(kj::str(notes)), scope(scope), writer(kj::mv(writer)) {}

  Problems apply(kj::ArrayPtr<const WantedDriver> wanted);

 private:
  // Devices that were changed, with the driver of each before; "" for a device without one.
  using Noted = std::map<std::string, std::string>;

  kj::String sys, notes;
  KernelScope scope;
  kj::Own<SysfsWriter> writer;
  std::set<std::string> warned;  // devices
  LastProblems last;
  std::mutex mutex;

  kj::String folderOf(kj::StringPtr device) const;
  // Returns "" for a device without a driver.
  kj::String driverOf(kj::StringPtr device) const;
  Noted readNoted() const;
  void writeNoted(const Noted& noted) const;
  void bind(const WantedDriver& wanted, Noted& noted);
  // `driver` is the noted one.
  void restore(kj::StringPtr device, kj::StringPtr driver);
  void probe(kj::StringPtr device);
};

}  // namespace talos::machined
