// /var, and what is writable by means of it (machined/system/var-folder.h):
// mountEphemeralPartition (boot, ephemeral), setupVarDirectory (boot, var) and
// mountOverlayFilesystems (boot, overlay).
#include "machined/process1/uv-loop.h"
#include "machined/system/var-folder.h"
#include "machined/tasks/task.h"
#include "machined/telemetry/node-console.h"

namespace talos::machined::tasks {
namespace {

void mountVar(Mounts& mounts, Console& console) {
  if (mountEphemeral("", mounts)) {
    console.say(
        "/var is in memory, as there is no partition for it; its content will be lost with a "
        "reboot");
  }
}

// What the launcher has mounted stays over a reboot, whatever it is.
void mountVarOfLauncher(Mounts& mounts, Console& console) {
  if (mounts.isMountPoint("/var")) return;
  mountEphemeral("", mounts);
  console.say(
      "nothing is mounted at /var, so it is in memory; its content will be lost with a reboot");
}

void makeFolders() {
  machined::setupVarDirectory("");
}

// By the thread pool: the kernel may have to load the module first.
kj::Promise<void> mountOnTop(UvLoop& uv, Mounts& mounts) {
  return uv.blocking([&mounts]() { mountOverlays("", mounts); });
}

}  // namespace

extern const BootTask mountEphemeralPartition = task<mountVar>("mountEphemeralPartition");
extern const BootTask mountEphemeralInContainer =
    task<mountVarOfLauncher>("mountEphemeralPartition");
extern const BootTask setupVarDirectory = task<makeFolders>("setupVarDirectory");
extern const BootTask mountOverlayFilesystems = task<mountOnTop>("mountOverlayFilesystems");

}  // namespace talos::machined::tasks
