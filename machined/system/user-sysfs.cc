#include "machined/system/user-sysfs.h"

#include "common/base/error.h"
#include "common/net/text-values.h"
#include "machined/system/setting-files.h"

namespace talos::machined {

SettingProblems UserSysfs::apply(kj::ArrayPtr<const WantedSetting> wanted) {
  std::lock_guard lock(mutex);
  kj::Vector<kj::String> problems;
  kj::TreeMap<kj::String, kj::String> before = kj::mv(written);
  written = {};
  if (wanted.size() == 0) return last.report(kj::mv(problems), false);
  if (scope != KernelScope::kAll) {
    problems.add(
        kj::str("machine.sysfs: not written, because this node is a container and the kernel is "
                "its host's"));
    return last.report(kj::mv(problems), false);
  }
  SettingFiles files(sys, Links::kBeneath, "there is no such file");
  for (auto& w : wanted) {
    KJ_IF_MAYBE (path, config::sysctlPath(w.key)) {
      bool done = false;
      KJ_IF_MAYBE (old, before.find(*path)) done = *old == w.value;
      auto failed = kj::runCatchingExceptions([&]() {
        if (!done) files.write(*path, w.value);
      });
      KJ_IF_MAYBE (e, failed) {
        problems.add(kj::str("machine.sysfs.", w.key, ": cannot write \"", w.value, "\" to ", sys,
                             "/", *path, ": ", messageOf(*e)));
      } else {
        written.upsert(kj::mv(*path), kj::str(w.value));
      }
    } else {
      problems.add(kj::str("machine.sysfs.", w.key, ": not a valid path of a file below /sys"));
    }
  }
  return last.report(kj::mv(problems), true);
}

}  // namespace talos::machined
