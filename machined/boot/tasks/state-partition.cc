// mountStatePartition (initialize, mountSystem), unlockStatePartition (initialize, unlockState:
// when the keys come from a config; afterwards the config stored on the partition counts) and
// unmountStatePartition (reboot and shutdown, unmountSystem): the partition with the config and the
// records of boots. A STATE that exists and cannot be mounted ends the boot
// (machined/disk/volumes/state-volume.h).
#include "machined/boot/tasks/task.h"
#include "machined/config/config-manager.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/disk/volumes/state-volume.h"
#include "machined/logs/history/boot-log-recorder.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> mountState(StateVolume& state, BootRecorder& recorder) {
  co_await state.mount();
  if (state.isMounted()) co_await recorder.begin(true);
}
kj::Promise<void> unlockState(StateVolume& state, BootRecorder& recorder, Store& store,
                              MachineConfigReader& config, ConfigManager& manager) {
  co_await state.mountWith(encryptionOfState(config.machine(store)));
  co_await recorder.begin(state.isMounted());  // also records failures from here on
  co_await manager.preferKept();
  co_await state.putKeysRight(encryptionOfState(config.machine(store)));
}
kj::Promise<void> unmountState(StateVolume& state, BootRecorder& recorder) {
  co_await recorder.end();
  co_await state.unmount();
}

}  // namespace

extern const BootTask mountStatePartition = task<mountState>("mountStatePartition");
extern const BootTask unlockStatePartition = task<unlockState>("unlockStatePartition");
extern const BootTask unmountStatePartition = task<unmountState>("unmountStatePartition");

}  // namespace talos::machined::tasks
