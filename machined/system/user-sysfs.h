// machine.sysfs: values of files below /sys (sysfs(5)), written at boot and when the config
// changes.
//
// A path never leads out of /sys: openat2(2) resolves it beneath, with the links of sysfs itself. A
// written value is not written again while it stays in the config, so a file that acts on each
// write does so once; after a crash of the brain perhaps twice. A value that is removed from the
// config stays until a reboot; those of zswap, which ZswapConfig sets, become what they were
// before, unless the brain was restarted in between. All are attempted; each failure is a problem
// with path and cause. In a container nothing is written, because the kernel is the host's.
#pragma once

#include <kj/map.h>

#include <mutex>

#include "machined/system/kernel-setting.h"
#include "machined/system/setting-files.h"

namespace talos::machined {

// Blocking calls, from any thread; they do their work one at a time.
class UserSysfs {
 public:
  UserSysfs(kj::StringPtr sys, KernelScope scope = KernelScope::kAll)  // "/sys"
      : sys(kj::str(sys)), scope(scope) {}

  SettingProblems apply(kj::ArrayPtr<const WantedSetting> wanted);

 private:
  kj::String sys;
  KernelScope scope;
  kj::TreeMap<kj::String, kj::String> written;   // by path
  kj::TreeMap<kj::String, kj::String> original;  // the values of zswap before the first write
  LastProblems last;
  std::mutex mutex;

  // Gives back the values of zswap that are not written any more.
  void giveBack(const SettingFiles& files, kj::Vector<kj::String>& problems);
};

}  // namespace talos::machined
