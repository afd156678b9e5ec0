// The settings of the kernel from the config: modules, then drivers of devices, then sysfs, then
// sysctls, since a module may add files of the others, and a driver files of its device. The header
// of each part has its promises.
#pragma once

#include "machined/system/pci-drivers.h"
#include "machined/system/sysctls.h"
#include "machined/system/user-modules.h"
#include "machined/system/user-sysfs.h"

namespace talos::machined {

struct WantedKernel {
  kj::Vector<WantedModule> modules;
  kj::Vector<WantedDriver> drivers;
  kj::Vector<WantedSetting> sysfs, sysctls;
};
WantedKernel wantedKernel(config::Machine::Reader machine);

struct KernelProblems {
  kj::Vector<kj::String> list;  // settings that were not made as configured, one line each
  kj::Vector<kj::String> news;  // problems of parts whose problems have changed, and new warnings
  bool retry = false;           // another attempt may succeed
};

struct KernelSettings {
  UserModules modules;
  PciDrivers drivers;
  UserSysfs sysfs;
  UserSysctls sysctls;

  // Returns true once the boot has set all of them.
  bool begun() const { return sysctls.begun(); }
  // Blocking, from any thread.
  KernelProblems apply(const WantedKernel& wanted);
};

}  // namespace talos::machined
