// stopAllPods and stopNetworkd (reboot and shutdown, cleanup) and stopAllServices (the same,
// stopEverything). Process 1 kills the processes that do not exit here: nothing may block the
// shutdown.
#include "common/base/error.h"
#include "common/base/within.h"
#include "machined/boot/tasks/shutdown-delay.h"
#include "machined/boot/tasks/stop-pods.h"
#include "machined/boot/tasks/task.h"
#include "machined/kubernetes/kubelet/kubelet-run.h"
#include "machined/logs/node-console.h"
#include "machined/services/containers/container-list.h"
#include "machined/services/supervisor.h"

namespace talos::machined::tasks {
namespace {

// Two groups of pods have 30 s each to exit; the rest is for removing a network.
constexpr auto kPodsTimeout = 90 * kj::SECONDS;
constexpr kj::StringPtr kVipService = "vipd"_kj;

kj::Promise<void> warnOnly(Console& console, kj::Promise<void> promise) {
  return promise.catch_(
      [&console](kj::Exception&& e) { console.say(kj::str("warning: ", messageOf(e))); });
}

kj::Promise<void> stopOne(Supervisor& supervisor, Console& console) {
  return warnOnly(console, supervisor.stop("networkd"));
}
kj::Promise<void> stopIfThere(Supervisor& supervisor, Console& console, kj::StringPtr service) {
  for (auto& id : supervisor.ids()) {
    if (id == service) co_await warnOnly(console, supervisor.stop(id));
  }
}
kj::Promise<void> stopAll(Supervisor& supervisor, Console& console) {
  return warnOnly(console, supervisor.stopAll());
}

}  // namespace

extern const BootTask stopAllPods = task<stopPodsGently>("stopAllPods");
extern const BootTask stopNetworkd = task<stopOne>("stopNetworkd");
extern const BootTask stopAllServices = task<stopAll>("stopAllServices");

}  // namespace talos::machined::tasks

namespace talos::machined {

kj::Promise<void> stopPodsGently(Supervisor& supervisor, Containerd& containerd, Console& console,
                                 kj::Timer& timer, Store& store) {
  // Shared addresses lead to this node's API server, which the kubelet stops like other pods.
  co_await tasks::stopIfThere(supervisor, console, tasks::kVipService);
  co_await delayShutdown(store, timer,
                         [&console](kj::StringPtr line) { console.say(line, Tone::kAlarm); });
  co_await tasks::stopIfThere(supervisor, console, kKubeletService);
  auto stopped = stopPods(
      containerd, [&console](kj::StringPtr line) { console.say(kj::str("warning: ", line)); });
  co_await tasks::warnOnly(console, within(timer, tasks::kPodsTimeout, kj::mv(stopped),
                                           kj::str("the pods have not stopped within ",
                                                   tasks::kPodsTimeout / kj::SECONDS, " s")));
}

}  // namespace talos::machined
