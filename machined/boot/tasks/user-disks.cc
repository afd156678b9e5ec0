// mountUserDisks (boot, userDisks) and unmountUserDisks (reboot, shutdown and reset, unmountUser):
// machine.disks (machined/disk/volumes/user-disks.h).
#include "machined/disk/volumes/user-disks.h"

#include "machined/boot/tasks/task.h"
#include "machined/config/controllers/machine-config-reader.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> mountDisks(UserDisks& disks, Store& store, MachineConfigReader& config) {
  return disks.mount(userDisksOf(config.machine(store)));
}

kj::Promise<void> unmountDisks(UserDisks& disks, Store& store, MachineConfigReader& config) {
  KJ_IF_MAYBE (machine, config.tryMachine(store)) return disks.unmount(userDisksOf(*machine));
  return kj::READY_NOW;  // a node without a config has mounted none
}

}  // namespace

extern const BootTask mountUserDisks = task<mountDisks>("mountUserDisks");
extern const BootTask unmountUserDisks = task<unmountDisks>("unmountUserDisks");

}  // namespace talos::machined::tasks
