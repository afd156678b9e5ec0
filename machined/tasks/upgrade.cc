// resumeUpgrade (initialize, upgrade): whether this system is on trial, or the one before it was
// and failed. upgrade (upgrade, upgrade): another one into the slot that does not run.
#include "machined/storage/state-volume.h"
#include "machined/tasks/task.h"
#include "machined/upgrade/upgrader.h"

namespace talos::machined::tasks {
namespace {

// The record is on STATE.
kj::Promise<void> takeUpUpgrade(Upgrader& upgrader, StateVolume& state) {
  if (!state.isMounted()) return kj::READY_NOW;
  return upgrader.resume();
}
kj::Promise<void> writeUpgrade(Upgrader& upgrader) {
  return upgrader.write();
}

}  // namespace

extern const BootTask resumeUpgrade = task<takeUpUpgrade>("resumeUpgrade");
extern const BootTask upgrade = task<writeUpgrade>("upgrade");

}  // namespace talos::machined::tasks
