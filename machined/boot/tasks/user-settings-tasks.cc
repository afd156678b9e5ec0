// Tasks that apply settings of the config to the system: kernel modules, sysfs, sysctls and files.
#include "common/base/node-messages.h"
#include "machined/boot/tasks/driver-deadline.h"
#include "machined/boot/tasks/task.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/logs/node-console.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/kernel-settings.h"
#include "machined/system/user-files.h"

namespace talos::machined::tasks {
namespace {

// loadUserModules (boot, userModules), writeUserSysfs and writeUserSysctls (boot, userSetup): apply
// the config's kernel settings (machined/system/kernel-settings.h). Modules have a separate phase,
// because tasks of one phase run at the same time, and the files of the other tasks may belong to a
// module. A refusal by the kernel is a warning, and so is a driver that hangs; the controller,
// which runs from now on, retries the setting.

template <typename Part, typename Wanted>
kj::Promise<void> applyAll(UvLoop& uv, Console& console, Part& part, kj::Vector<Wanted> wanted) {
  auto problems =
      co_await uv.blocking([&part, wanted = kj::mv(wanted)]() { return part.apply(wanted); });
  for (auto& p : problems.list) console.say(kj::str("warning: ", p));
}

template <typename Part, typename Wanted>
kj::Promise<void> applyPart(UvLoop& uv, kj::Timer& timer, Console& console, kj::StringPtr key,
                            Part& part, kj::Vector<Wanted> wanted) {
  return untilDriverDeadline(timer, kj::str("applying ", key),
                             applyAll(uv, console, part, kj::mv(wanted)),
                             [&console](kj::StringPtr line) { console.say(line); });
}

kj::Promise<void> loadModules(Store& store, MachineConfigReader& reader, UvLoop& uv,
                              kj::Timer& timer, KernelSettings& settings, Console& console) {
  return applyPart(uv, timer, console, "machine.kernel.modules", settings.modules,
                   wantedModules(reader.machine(store)));
}

kj::Promise<void> writeSysfs(Store& store, MachineConfigReader& reader, UvLoop& uv,
                             kj::Timer& timer, KernelSettings& settings, Console& console) {
  return applyPart(uv, timer, console, "machine.sysfs", settings.sysfs,
                   wantedSettings(reader.machine(store).getSysfs()));
}

kj::Promise<void> setSysctls(Store& store, MachineConfigReader& reader, UvLoop& uv,
                             kj::Timer& timer, KernelSettings& settings,
                             ControllerRuntime& controllers, Console& console) {
  co_await applyPart(uv, timer, console, "machine.sysctls", settings.sysctls,
                     wantedSettings(reader.machine(store).getSysctls()));
  controllers.poke("runtime.KernelSettingsController");
}

// writeUserFiles (boot, userSetup): machine.files (machined/system/user-files.h). A file that
// cannot be written does not end the boot: what needs the file says so, and the node stays in its
// cluster, where its config can be changed.

kj::Promise<void> writeAll(UvLoop& uv, Mounts& mounts, UserFileProblems& problems, Console& console,
                           kj::Vector<UserFile> files) {
  auto result = co_await uv.blocking([&mounts, &problems, files = kj::mv(files)]() {
    auto lock = problems.writing.lockExclusive();
    return machined::writeUserFiles("", mounts, files);
  });
  for (auto& warning : result.warnings) console.say(kj::str("warning: ", warning));
  for (auto& problem : result.problems) {
    console.say(kj::str("problem: ", messages::kNotInEffect, problem), Tone::kAlarm);
  }
  co_await problems.set(kj::mv(result.problems));
}

kj::Promise<void> writeFiles(Store& store, MachineConfigReader& reader, UvLoop& uv,
                             kj::Timer& timer, Mounts& mounts, UserFileProblems& problems,
                             ControllerRuntime& controllers, Console& console) {
  bool late = false;
  co_await untilDriverDeadline(
      timer, "writing machine.files",
      writeAll(uv, mounts, problems, console, userFiles(reader.machine(store))),
      [&](kj::StringPtr line) { console.say(line, Tone::kAlarm), late = true; });
  if (late) {
    kj::Vector<kj::String> unfinished;
    unfinished.add(
        kj::str("machine.files: not written to the end; a disk or a mount does not answer"));
    co_await problems.set(kj::mv(unfinished));
  }
  controllers.poke("runtime.TrustedRootsController");
}

}  // namespace

extern const BootTask loadUserModules = task<loadModules>("loadUserModules");
extern const BootTask writeUserSysfs = task<writeSysfs>("writeUserSysfs");
extern const BootTask writeUserSysctls = task<setSysctls>("writeUserSysctls");

extern const BootTask writeUserFiles = task<writeFiles>("writeUserFiles");

}  // namespace talos::machined::tasks
