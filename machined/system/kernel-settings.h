// The settings of the kernel that a config makes: modules, then sysfs, then sysctls, since a module
// may bring files of the others. Each part says what it promises.
#pragma once

#include "machined/system/sysctls.h"
#include "machined/system/user-modules.h"
#include "machined/system/user-sysfs.h"

namespace talos::machined {

struct WantedKernel {
  kj::Vector<WantedModule> modules;
  kj::Vector<WantedSetting> sysfs, sysctls;
};
WantedKernel wantedKernel(config::Machine::Reader machine);

struct KernelProblems {
  kj::Vector<kj::String> list;  // what is not as it was asked for, one line each
  kj::Vector<kj::String> news;  // those of parts that reported others the last time
  bool retry = false;           // another attempt may succeed
};

struct KernelSettings {
  UserModules modules;
  UserSysfs sysfs;
  UserSysctls sysctls;

  // True once the boot has set all of them.
  bool begun() const { return sysctls.begun(); }
  // Blocking, from any thread.
  KernelProblems apply(const WantedKernel& wanted);
};

}  // namespace talos::machined
