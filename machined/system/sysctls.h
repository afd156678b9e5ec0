// machine.sysctls: kernel parameters, set at boot and whenever the config changes.
//
// Before the first change of a parameter, its original value is noted in a file in memory. So a
// parameter that is removed from the config gets its original value back, even if the brain has
// died since; a reboot clears the notes together with the settings. All parameters are attempted;
// each failure is reported with the kernel's message. In a container only net.* is set; everything
// else is a problem. A few need a right that the brain lacks: another process writes these.
#pragma once

#include <kj/function.h>

#include <mutex>

#include "machined/system/kernel-setting.h"

namespace talos::machined {

// Writes a line to a parameter by its path: 0 or an errno; nullptr if this process may write it
// itself (machined/process1/helpers/kernel-helpers.h).
using WriteByHelper = kj::ConstFunction<kj::Maybe<int>(kj::StringPtr path, kj::StringPtr line)>;

// Blocking calls, from any thread; they do their work one at a time.
class UserSysctls {
 public:
  // "/proc/sys", "/system/run/sysctls"
  UserSysctls(
      kj::StringPtr procSys, kj::StringPtr notes, KernelScope scope = KernelScope::kAll,
      WriteByHelper byHelper = [](kj::StringPtr, kj::StringPtr) -> kj::Maybe<int> {
        return nullptr;
      })
      : procSys(kj::str(procSys)),
        notes(kj::str(notes)),
        scope(scope),
        byHelper(kj::mv(byHelper)) {}

  // Returns true if apply() was called since the machine started.
  bool begun() const;
  SettingProblems apply(kj::ArrayPtr<const WantedSetting> wanted);

 private:
  kj::String procSys, notes;
  KernelScope scope;
  WriteByHelper byHelper;
  LastProblems last;

  bool isOurs(kj::StringPtr path) const;  // below /proc/sys
  std::mutex mutex;
};

}  // namespace talos::machined
