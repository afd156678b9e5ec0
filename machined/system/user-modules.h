// machine.kernel.modules: kernel modules with their parameters, loaded at boot and when the config
// changes, in their order; the dependencies of a module are loaded first, with their own parameters
// of the config (modprobe(8), finit_module(2)). No module is unloaded.
//
// A file in memory notes each module and its parameters before it is loaded. So after a crash the
// next brain neither loads them again nor reports its predecessor's work as a problem. The kernel
// accepts parameters only when it loads a module: other parameters of a loaded module are a
// problem, as is a module that is unknown or refused. All are attempted. In a container nothing is
// loaded.
#pragma once

#include <kj/function.h>

#include <mutex>

#include "machined/process1/modprobe/kernel-modules.h"
#include "machined/system/kernel-setting.h"

namespace talos::machined {

struct WantedModule {
  kj::String name;
  kj::String parameters;  // as on a command line
};
kj::Vector<WantedModule> wantedModules(config::Machine::Reader machine);

// Blocking calls, from any thread; they do their work one at a time.
class UserModules {
 public:
  // "/sys/module", "/system/run/modules"
  UserModules(
      kj::StringPtr sysModule, kj::StringPtr notes, KernelScope scope = KernelScope::kAll,
      OpenModules open = [] { return Modules::ofRunningKernel(); })
      : sysModule(kj::str(sysModule)), notes(kj::str(notes)), scope(scope), open(kj::mv(open)) {}

  SettingProblems apply(kj::ArrayPtr<const WantedModule> wanted);

 private:
  kj::String sysModule, notes;
  KernelScope scope;
  OpenModules open;
  LastProblems last;
  std::mutex mutex;
};

}  // namespace talos::machined
