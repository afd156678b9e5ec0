// writeUserSysctls (boot, userSetup): applies machine.sysctls (machined/system/sysctls.h). A
// setting that the kernel refuses is a warning, and the controller, which runs from now on, retries
// it.
#include "machined/boot/tasks/task.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/logs/node-console.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/sysctls.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> writeSettings(Store& store, MachineConfigReader& reader, UvLoop& uv,
                                UserSysctls& sysctls, ControllerRuntime& controllers,
                                Console& console) {
  auto wanted = wantedSysctls(reader.machine(store));
  auto problems =
      co_await uv.blocking([&sysctls, wanted = kj::mv(wanted)]() { return sysctls.apply(wanted); });
  for (auto& p : problems.list) console.say(kj::str("warning: ", p));
  controllers.poke("runtime.SysctlController");
}

}  // namespace

extern const BootTask writeUserSysctls = task<writeSettings>("writeUserSysctls");

}  // namespace talos::machined::tasks
