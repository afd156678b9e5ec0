// machine.sysctls: kernel parameters (spec machine-config.md §3), set at boot and whenever the
// config changes.
//
// What the kernel had before is noted in a file in memory, like the settings themselves, before the
// first change of a parameter. So a parameter that the config does not name any more gets its old
// value back, also when the brain has died since; and the notes are gone with the settings after a
// reboot. All are attempted; what was refused is told for each of them, in the kernel's words.
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

struct SysctlProblems {
  kj::Vector<kj::String> list;  // what is not as it was asked for, one line each
  bool news;                    // not the same as the last time
};

// Blocking calls, from any thread; one at a time does its work.
class UserSysctls {
 public:
  // "/proc/sys", "/system/run/sysctls"
  UserSysctls(kj::StringPtr procSys, kj::StringPtr notes)
      : procSys(kj::str(procSys)), notes(kj::str(notes)) {}

  // Whether apply() was called since the machine started.
  bool begun() const;
  SysctlProblems apply(kj::ArrayPtr<const WantedSysctl> wanted);

 private:
  kj::String procSys, notes, told;
  std::mutex mutex;
};

}  // namespace talos::machined
