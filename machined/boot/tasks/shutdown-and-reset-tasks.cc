// Tasks that stop pods and services, reboot, shut down and reset the node.
#include <linux/reboot.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/kernel/kernel-arguments.h"
#include "machined/boot/tasks/shutdown-delay.h"
#include "machined/boot/tasks/task.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/disk/volumes/node-reset.h"
#include "machined/kubernetes/kubelet/kubelet-run.h"
#include "machined/logs/event-ring.h"
#include "machined/logs/node-console.h"
#include "machined/process1/process1.h"
#include "machined/services/containers/container-list.h"
#include "machined/services/supervisor.h"

namespace talos::machined::tasks {
namespace {

// stopAllPods and stopNetworkd (reboot and shutdown, cleanup) and stopAllServices (the same,
// stopEverything). Process 1 kills the processes that do not exit here: nothing may block the
// shutdown.

// Two groups of pods have 30 s each to exit; the rest is for removing a network.
constexpr auto kPodsTimeout = 90 * kj::SECONDS;
constexpr kj::StringPtr kVipService = "vipd"_kj;

kj::Promise<void> warnOnly(Console& console, kj::Promise<void> promise) {
  return promise.catch_(
      [&console](kj::Exception&& e) { console.say(kj::str("warning: ", messageOf(e))); });
}

kj::Promise<void> stopNetworkService(Supervisor& supervisor, Console& console) {
  return warnOnly(console, supervisor.stop("networkd"));
}
kj::Promise<void> stopIfPresent(Supervisor& supervisor, Console& console, kj::StringPtr service) {
  for (auto& id : supervisor.ids()) {
    if (id == service) co_await warnOnly(console, supervisor.stop(id));
  }
}
kj::Promise<void> stopServices(Supervisor& supervisor, Console& console) {
  return warnOnly(console, supervisor.stopAll());
}

// Stops the pods of a node that shuts down. First the node gives up its shared addresses, so that
// no client waits for its API server. Then the holders of inhibitor locks get their time
// (machined/confined/login1): the kubelet uses it to stop its pods. Then the kubelet itself stops,
// because it would start pods again; then the remaining pods stop, within 90 s in total. Failures
// are warnings.
kj::Promise<void> stopPodsInOrder(Supervisor& supervisor, Containerd& containerd, Console& console,
                                  kj::Timer& timer, Store& store) {
  // Shared addresses lead to this node's API server, which the kubelet stops like other pods.
  co_await stopIfPresent(supervisor, console, kVipService);
  co_await delayShutdown(store, timer,
                         [&console](kj::StringPtr line) { console.say(line, Tone::kAlarm); });
  co_await stopIfPresent(supervisor, console, kKubeletService);
  auto stopped = stopPods(
      containerd, [&console](kj::StringPtr line) { console.say(kj::str("warning: ", line)); });
  co_await warnOnly(console, within(timer, kPodsTimeout, kj::mv(stopped),
                                    kj::str("the pods have not stopped within ",
                                            kPodsTimeout / kj::SECONDS, " s")));
}

// reboot and shutdown (the last phases of the sequences of their names): process 1 stops
// everything. They do not return.

kj::Promise<void> endSystem(Events& events, Process1& process1, unsigned command) {
  events.publish([command](rpc::Event::Builder event) { event.setRestart(command); });
  return process1.reboot(command);
}

kj::Promise<void> restart(Events& events, Process1& process1) {
  return endSystem(events, process1, LINUX_REBOOT_CMD_RESTART);
}
kj::Promise<void> powerOff(Events& events, Process1& process1, const KernelArguments& arguments) {
  bool halt = arguments.first("talos.shutdown").orDefault("") == "halt";
  return endSystem(events, process1, halt ? LINUX_REBOOT_CMD_HALT : LINUX_REBOOT_CMD_POWER_OFF);
}

// finishReset (initialize, finishReset): finishes an interrupted reset before anything is mounted,
// and reboots or shuts down. stopPodsForReset (reset, cleanup), forgetErasedHeaders (reset,
// forget), resetSystemDisk (reset, reset) and endReset (reset, reboot) are the reset itself
// (machined/disk/volumes/node-reset.h).
//
// If a partition cannot be erased now, because the disk is still in use, the next boot erases it:
// the node reboots then, even if it is to be off afterwards.

kj::Promise<void> rebootOrPowerOff(Events& events, Process1& process1,
                                   const KernelArguments& arguments, bool reboot) {
  return reboot ? restart(events, process1) : powerOff(events, process1, arguments);
}

kj::Promise<void> finishPending(Reset& reset, Console& console, Events& events, Process1& process1,
                                const KernelArguments& arguments) {
  auto begins = [&]() { console.say("a reset was interrupted; finishing it", Tone::kAlarm); };
  auto finished = co_await reset.finishMarked(kj::mv(begins));
  KJ_IF_MAYBE (reboot, finished) co_await rebootOrPowerOff(events, process1, arguments, *reboot);
}

kj::Promise<void> stopPodsBefore(Reset& reset, Supervisor& supervisor, Containerd& containerd,
                                 Console& console, kj::Timer& timer, Store& store) {
  KJ_IF_MAYBE (request, reset.promised()) {
    if (!request->graceful) return kj::READY_NOW;  // pods stop with containerd
  }
  return stopPodsInOrder(supervisor, containerd, console, timer, store);
}

// Needs STATE mounted. After a power cut the next boot that uses EPHEMERAL removes the backup.
kj::Promise<void> forgetErased(Reset& reset, EphemeralVolume& ephemeral) {
  KJ_IF_MAYBE (request, reset.promised()) {
    if (erases(*request, kEphemeralName)) return ephemeral.forgetHeader();
  }
  return kj::READY_NOW;
}

kj::Promise<void> eraseDisk(Reset& reset, Console& console, Events& events, Process1& process1) {
  kj::Maybe<kj::Exception> failure;
  co_await reset.carryOutPromised().catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    console.say(
        kj::str("cannot reset now: ", messageOf(*e), "; the next boot finishes it; rebooting"),
        Tone::kAlarm);
    co_await restart(events, process1);
  }
}

kj::Promise<void> afterReset(Reset& reset, Events& events, Process1& process1,
                             const KernelArguments& arguments) {
  bool reboot = false;
  KJ_IF_MAYBE (request, reset.promised()) reboot = request->reboot;
  return rebootOrPowerOff(events, process1, arguments, reboot);
}

}  // namespace

extern const BootTask stopAllPods = task<stopPodsInOrder>("stopAllPods");
extern const BootTask stopNetworkd = task<stopNetworkService>("stopNetworkd");
extern const BootTask stopAllServices = task<stopServices>("stopAllServices");

extern const BootTask reboot = task<restart>("reboot");
extern const BootTask shutdown = task<powerOff>("shutdown");

extern const BootTask finishReset = task<finishPending>("finishReset");
extern const BootTask stopPodsForReset = task<stopPodsBefore>("stopAllPods");
extern const BootTask forgetErasedHeaders = task<forgetErased>("forgetErasedHeaders");
extern const BootTask resetSystemDisk = task<eraseDisk>("resetSystemDisk");
extern const BootTask endReset = task<afterReset>("reboot");

}  // namespace talos::machined::tasks
