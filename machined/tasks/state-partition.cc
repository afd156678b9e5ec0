// mountStatePartition (initialize, mountSystem) and unmountStatePartition (reboot and shutdown,
// unmountSystem): the disk that the config is kept on. What is wrong with it is said and stops
// nothing.
#include "machined/storage/state-volume.h"
#include "machined/tasks/task.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> mountState(StateVolume& state) {
  return state.mount();
}
kj::Promise<void> unmountState(StateVolume& state) {
  return state.unmount();
}

}  // namespace

extern const BootTask mountStatePartition = task<mountState>("mountStatePartition");
extern const BootTask unmountStatePartition = task<unmountState>("unmountStatePartition");

}  // namespace talos::machined::tasks
