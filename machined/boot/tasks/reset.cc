// finishReset (initialize, finishReset): finishes an interrupted reset before anything is mounted,
// and reboots or shuts down. stopPodsForReset (reset, cleanup), forgetErasedHeaders (reset,
// forget), resetSystemDisk (reset, reset) and endReset (reset, reboot) are the reset itself
// (machined/disk/volumes/node-reset.h).
//
// If a partition cannot be erased now, because the disk is still in use, the next boot erases it:
// the node reboots then, even if it is to be off afterwards.
#include "machined/disk/volumes/node-reset.h"

#include <linux/reboot.h>

#include "common/base/error.h"
#include "common/kernel/kernel-arguments.h"
#include "machined/boot/tasks/stop-pods.h"
#include "machined/boot/tasks/task.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/logs/event-ring.h"
#include "machined/logs/node-console.h"
#include "machined/process1/process1.h"
#include "machined/services/supervisor.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> goDownAs(Events& events, Process1& process1, const KernelArguments& arguments,
                           bool reboot) {
  bool halt = arguments.first("talos.shutdown").orDefault("") == "halt";
  unsigned command = reboot ? LINUX_REBOOT_CMD_RESTART
                     : halt ? LINUX_REBOOT_CMD_HALT
                            : LINUX_REBOOT_CMD_POWER_OFF;
  events.publish([command](rpc::Event::Builder event) { event.setRestart(command); });
  return process1.reboot(command);
}

kj::Promise<void> finishPending(Reset& reset, Console& console, Events& events, Process1& process1,
                                const KernelArguments& arguments) {
  auto begins = [&]() { console.say("a reset was interrupted; finishing it", Tone::kAlarm); };
  auto finished = co_await reset.finishMarked(kj::mv(begins));
  KJ_IF_MAYBE (reboot, finished) co_await goDownAs(events, process1, arguments, *reboot);
}

kj::Promise<void> stopPodsBefore(Reset& reset, Supervisor& supervisor, Containerd& containerd,
                                 Console& console, kj::Timer& timer, Store& store) {
  KJ_IF_MAYBE (request, reset.promised()) {
    if (!request->graceful) return kj::READY_NOW;  // pods stop with containerd
  }
  return stopPodsGently(supervisor, containerd, console, timer, store);
}

// Needs STATE mounted. After a power cut the next boot that uses EPHEMERAL removes the backup.
kj::Promise<void> forgetErased(Reset& reset, EphemeralVolume& ephemeral) {
  KJ_IF_MAYBE (request, reset.promised()) {
    if (erases(*request, kEphemeralName)) return ephemeral.forgetHeader();
  }
  return kj::READY_NOW;
}

kj::Promise<void> eraseDisk(Reset& reset, Console& console, Events& events, Process1& process1,
                            const KernelArguments& arguments) {
  kj::Maybe<kj::Exception> failure;
  co_await reset.carryOutPromised().catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    console.say(
        kj::str("cannot reset now: ", messageOf(*e), "; the next boot finishes it; rebooting"),
        Tone::kAlarm);
    co_await goDownAs(events, process1, arguments, true);
  }
}

kj::Promise<void> end(Reset& reset, Events& events, Process1& process1,
                      const KernelArguments& arguments) {
  bool reboot = false;
  KJ_IF_MAYBE (request, reset.promised()) reboot = request->reboot;
  return goDownAs(events, process1, arguments, reboot);
}

}  // namespace

extern const BootTask finishReset = task<finishPending>("finishReset");
extern const BootTask stopPodsForReset = task<stopPodsBefore>("stopAllPods");
extern const BootTask forgetErasedHeaders = task<forgetErased>("forgetErasedHeaders");
extern const BootTask resetSystemDisk = task<eraseDisk>("resetSystemDisk");
extern const BootTask endReset = task<end>("reboot");

}  // namespace talos::machined::tasks
