// Loads the kernel modules of present devices. loadNetworkModules (initialize, systemRequirements):
// for network devices. loadDiskModules (initialize, discoverNetwork): for disks, which may hold the
// config. loadDeviceModules (boot, startEverything): all others, once the services are up, and
// br_netfilter, which no program of a pod requests: without it, answers between pods of the same
// node do not come back through the Service.
#include <sys/resource.h>

#include "common/base/error.h"
#include "machined/boot/tasks/driver-deadline.h"
#include "machined/boot/tasks/task.h"
#include "machined/disk/devices/device-drivers.h"
#include "machined/logs/node-console.h"
#include "machined/process1/helpers/kernel-helpers.h"
#include "machined/process1/uv-loop.h"
#include "machined/services/supervisor.h"

namespace talos::machined::tasks {
namespace {

constexpr auto kServicesFirst = 3 * kj::SECONDS;
constexpr int kLeastUrgent = 19;

using LoadDrivers = void (*)(const Modules&, kj::Function<void(kj::StringPtr)>);

kj::Promise<void> loadAll(UvLoop& uv, Console& console, const KernelHelpers& helpers,
                          LoadDrivers drivers, int niceness) {
  auto problems = co_await uv.blocking([&helpers, drivers, niceness]() {
    setpriority(PRIO_PROCESS, 0, niceness);
    KJ_DEFER(setpriority(PRIO_PROCESS, 0, 0));
    kj::Vector<kj::String> problems;
    drivers(helpers.openModules(), [&](kj::StringPtr p) { problems.add(kj::str(p)); });
    return problems;
  });
  for (auto& p : problems) console.say(kj::str("warning: ", p));
}

// A module that the kernel refuses, and a driver that hangs, is a warning: the other devices may be
// enough.
kj::Promise<void> loadDrivers(UvLoop& uv, kj::Timer& timer, Console& console,
                              const KernelHelpers& helpers, kj::StringPtr devices,
                              LoadDrivers drivers, int niceness = 0) {
  return untilDriverDeadline(timer, kj::str("loading the drivers of ", devices),
                             loadAll(uv, console, helpers, drivers, niceness),
                             [&console](kj::StringPtr line) { console.say(line); });
}

kj::Promise<void> loadNetwork(UvLoop& uv, kj::Timer& timer, Console& console,
                              KernelHelpers& helpers) {
  return loadDrivers(uv, timer, console, helpers, "network devices",
                     [](const Modules& modules, kj::Function<void(kj::StringPtr)> failed) {
                       kj::StringPtr network[] = {"kernel/drivers/net/"_kj};
                       modules.coldplug(kj::mv(failed), network);
                     });
}

kj::Promise<void> loadDisks(UvLoop& uv, kj::Timer& timer, Console& console,
                            KernelHelpers& helpers) {
  return loadDrivers(uv, timer, console, helpers, "disks",
                     [](const Modules& modules, kj::Function<void(kj::StringPtr)> failed) {
                       loadDiskDrivers(modules, kj::mv(failed));
                     });
}

// A driver that is being set up holds the processor regardless of its priority, so loading waits
// for the services for a moment; the services do not depend on these drivers.
kj::Promise<void> loadOthers(UvLoop& uv, Console& console, KernelHelpers& helpers,
                             Supervisor& supervisor, kj::Timer& timer) {
  kj::Vector<kj::Promise<void>> up;
  for (auto& id : supervisor.ids()) {
    if (supervisor.isAwaited(id)) up.add(supervisor.whenUp(id));
  }
  co_await kj::joinPromises(up.releaseAsArray())
      .catch_([](kj::Exception&&) {})  // startAllServices reports it
      .exclusiveJoin(timer.afterDelay(kServicesFirst));
  co_await loadDrivers(
      uv, timer, console, helpers, "other devices",
      [](const Modules& modules, kj::Function<void(kj::StringPtr)> failed) {
        auto failure = kj::runCatchingExceptions([&] { modules.load("br_netfilter"); });
        KJ_IF_MAYBE (e, failure) failed(messageOf(*e));
        modules.coldplug(kj::mv(failed));
      },
      kLeastUrgent);
}

}  // namespace

extern const BootTask loadNetworkModules = task<loadNetwork>("loadNetworkModules");
extern const BootTask loadDiskModules = task<loadDisks>("loadDiskModules");
extern const BootTask loadDeviceModules = task<loadOthers>("loadDeviceModules");

}  // namespace talos::machined::tasks
