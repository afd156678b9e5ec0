#include "machined/system/user-sysfs.h"

#include "common/base/error.h"
#include "common/net/text-values.h"
#include "common/text/ascii.h"

namespace talos::machined {
namespace {

bool isOfZswap(kj::StringPtr path) {
  return path.startsWith("module/zswap/parameters/");
}

// Returns the key that a problem is about. Usually the document sets the values of zswap.
kj::String settingOf(kj::StringPtr key) {
  bool zswap = config::sysctlPath(key).map(isOfZswap).orDefault(false);
  return kj::str(zswap ? "ZswapConfig: " : "", "machine.sysfs.", key);
}

}  // namespace

void UserSysfs::giveBack(const SettingFiles& files, kj::Vector<kj::String>& problems) {
  kj::Vector<kj::String> done;
  for (auto& entry : original) {
    if (written.find(entry.key) != nullptr) continue;
    auto failed = kj::runCatchingExceptions([&]() { files.write(entry.key, entry.value); });
    KJ_IF_MAYBE (e, failed) {
      problems.add(kj::str("ZswapConfig: cannot write \"", entry.value, "\" to ", sys, "/",
                           entry.key, ": ", messageOf(*e)));
    } else {
      done.add(kj::str(entry.key));
    }
  }
  for (auto& path : done) original.erase(path);
}

SettingProblems UserSysfs::apply(kj::ArrayPtr<const WantedSetting> wanted) {
  std::lock_guard lock(mutex);
  kj::Vector<kj::String> problems;
  kj::TreeMap<kj::String, kj::String> before = kj::mv(written);
  written = {};
  if (wanted.size() == 0 && original.size() == 0) return last.report(kj::mv(problems), false);
  if (scope != KernelScope::kAll) {
    bool zswap = true;
    for (auto& w : wanted) zswap = zswap && settingOf(w.key).startsWith("ZswapConfig");
    problems.add(kj::str(zswap ? "ZswapConfig" : "machine.sysfs",
                         ": not written, because this node is a container and the kernel is its "
                         "host's"));
    return last.report(kj::mv(problems), false);
  }
  SettingFiles files(sys, Links::kBeneath, "there is no such file");
  for (auto& w : wanted) {
    KJ_IF_MAYBE (path, config::sysctlPath(w.key)) {
      bool done = false;
      KJ_IF_MAYBE (old, before.find(*path)) done = *old == w.value;
      auto failed = kj::runCatchingExceptions([&]() {
        if (done) return;
        if (isOfZswap(*path) && original.find(*path) == nullptr) {
          KJ_IF_MAYBE (old, files.tryRead(*path)) {
            original.insert(kj::str(*path), kj::heapString(trimmed(*old)));
          }
        }
        files.write(*path, w.value);
      });
      KJ_IF_MAYBE (e, failed) {
        problems.add(kj::str(settingOf(w.key), ": cannot write \"", w.value, "\" to ", sys, "/",
                             *path, ": ", messageOf(*e)));
      } else {
        written.upsert(kj::mv(*path), kj::str(w.value));
      }
    } else {
      problems.add(kj::str("machine.sysfs.", w.key, ": not a valid path of a file below /sys"));
    }
  }
  giveBack(files, problems);
  return last.report(kj::mv(problems), true);
}

}  // namespace talos::machined
