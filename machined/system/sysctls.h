// machine.sysctls: kernel parameters , set at boot and whenever the config changes.
//
// Before the first change of a parameter, its original value is noted in a file in memory. So a
// parameter that is removed from the config gets its original value back, even when the brain has
// died since; a reboot clears the notes together with the settings. All parameters are attempted;
// each failure is reported with the kernel's message.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include <mutex>

#include "rpc/config.capnp.h"

namespace talos::machined {

struct WantedSysctl {
  kj::String key;  // as the config names it
  kj::String value;
};
kj::Vector<WantedSysctl> wantedSysctls(config::Machine::Reader machine);

// In a container the kernel is the host's, but for its network namespace: only net.* is set there,
// everything else is a problem.
enum class SysctlScope { kAll, kNetwork };

struct SysctlProblems {
  kj::Vector<kj::String> list;  // what is not as it was asked for, one line each
  bool news;                    // not the same as the last time
};

// Blocking calls, from any thread; one at a time does its work.
class UserSysctls {
 public:
  // "/proc/sys", "/system/run/sysctls"
  UserSysctls(kj::StringPtr procSys, kj::StringPtr notes, SysctlScope scope = SysctlScope::kAll)
      : procSys(kj::str(procSys)), notes(kj::str(notes)), scope(scope) {}

  // True if apply() was called since the machine started.
  bool begun() const;
  SysctlProblems apply(kj::ArrayPtr<const WantedSysctl> wanted);

 private:
  kj::String procSys, notes, lastReported;
  SysctlScope scope;

  bool isOurs(kj::StringPtr path) const;  // below /proc/sys
  std::mutex mutex;
};

}  // namespace talos::machined
