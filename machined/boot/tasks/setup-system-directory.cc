// setupSystemDirectory (initialize, systemRequirements): makes /system and its folders, and the
// folder of the bus, which only the bus's servers and root may enter.
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "machined/boot/tasks/task.h"
#include "machined/system/etc-files.h"

namespace talos::machined::tasks {
namespace {

void makeSystemFolders() {
  machined::setupSystemDirectory("");
  makeDirectories(kBusFolder, 0700);
  KJ_SYSCALL(chown(kBusFolder.cStr(), kLogin1Uid, kLogin1Uid));
}

}  // namespace

extern const BootTask setupSystemDirectory = task<makeSystemFolders>("setupSystemDirectory");

}  // namespace talos::machined::tasks
