// writeUserFiles (boot, userSetup): machine.files (machined/system/user-files.h).
#include "common/base/error.h"
#include "machined/boot/tasks/task.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/logs/node-console.h"
#include "machined/process1/uv-loop.h"
#include "machined/system/user-files.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> writeFiles(Store& store, MachineConfigReader& reader, UvLoop& uv, Mounts& mounts,
                             Console& console) {
  auto files = userFiles(reader.machine(store));
  auto result = co_await uv.blocking(
      [&mounts, files = kj::mv(files)]() { return machined::writeUserFiles("", mounts, files); });
  for (auto& warning : result.warnings) console.say(kj::str("warning: ", warning));
  if (!result.problems.empty()) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("files of the machine config:\n", kj::strArray(result.problems, "\n")));
  }
}

}  // namespace

extern const BootTask writeUserFiles = task<writeFiles>("writeUserFiles");

}  // namespace talos::machined::tasks
