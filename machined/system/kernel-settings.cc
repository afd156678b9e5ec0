#include "machined/system/kernel-settings.h"

namespace talos::machined {

WantedKernel wantedKernel(config::Machine::Reader machine) {
  return {wantedModules(machine), wantedDrivers(machine), wantedSettings(machine.getSysfs()),
          wantedSettings(machine.getSysctls())};
}

KernelProblems KernelSettings::apply(const WantedKernel& wanted) {
  KernelProblems all;
  auto add = [&](SettingProblems part) {
    for (auto& line : part.list) {
      if (part.news) all.news.add(kj::str(line));
      all.list.add(kj::mv(line));
    }
    all.retry = all.retry || part.retry;
  };
  add(modules.apply(wanted.modules));
  auto bound = drivers.apply(wanted.drivers);
  for (auto& warning : bound.warnings) all.news.add(kj::mv(warning));
  add(kj::mv(bound.settings));
  add(sysfs.apply(wanted.sysfs));
  add(sysctls.apply(wanted.sysctls));
  return all;
}

}  // namespace talos::machined
