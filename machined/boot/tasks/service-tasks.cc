// Tasks that start services, and restart those that lack variables of machine.env.
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/within.h"
#include "common/memory/zeroize.h"
#include "machined/boot/tasks/task.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/config/trust/join-controller.h"
#include "machined/services/supervisor.h"
#include "machined/system/service-environment.h"

namespace talos::machined::tasks {
namespace {

// setUserEnvVars (boot, env): applies machine.env to running services. A service gets its variables
// when it starts; a service that was started before the config was loaded is restarted if it lacks
// any of them.

constexpr auto kRenewTimeout = 30 * kj::SECONDS;

bool lacks(Supervisor& supervisor, kj::StringPtr id, kj::ArrayPtr<const kj::String> wanted) {
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  supervisor.fill(id, service);
  if (service.getPid() == 0 || service.getPid() == getpid()) return false;
  KJ_IF_MAYBE (environ, tryReadFile(kj::str("/proc/", service.getPid(), "/environ"))) {
    KJ_DEFER(zeroize(environ->asArray()));
    return !hasEnvironment(id, environ->asArray(), wanted);
  }
  return true;
}

kj::Promise<void> renewServices(Store& store, MachineConfigReader& reader, Supervisor& supervisor,
                                kj::Timer& timer) {
  for (auto& id : supervisor.ids()) {
    auto wanted = serviceEnvironment(id, reader.machine(store));
    if (wanted.size() == 0) continue;
    // In a container it may be starting at this moment, with the variables from before the config.
    co_await within(
        timer, kRenewTimeout, supervisor.whenStarted(id),
        kj::str("service \"", id, "\" did not start within ", kRenewTimeout / kj::SECONDS, " s"));
    if (!lacks(supervisor, id, wanted)) continue;
    co_await supervisor.stop(id);
    supervisor.start(id);
    co_await within(timer, kRenewTimeout, supervisor.whenUp(id),
                    kj::str("service \"", id, "\" did not come up again within ",
                            kRenewTimeout / kj::SECONDS, " s"));
  }
}

// startAllServices (boot, startEverything): starts every service and waits for those that the boot
// depends on.

constexpr auto kServicesTimeout = 15 * kj::MINUTES;

// The API of a worker is up when a control-plane machine has issued its certificate. The control
// plane may be down for any time, so this machine's boot does not depend on it.
bool waitsForOthers(kj::StringPtr id, Store& store, MachineConfigReader& reader) {
  if (id != "apid") return false;
  KJ_IF_MAYBE (config, reader.tryConfig(store)) return asksTrustd(*config);
  return false;
}

kj::Promise<void> startAll(Supervisor& supervisor, Store& store, MachineConfigReader& reader,
                           kj::Timer& timer) {
  kj::Vector<kj::Promise<void>> up;
  for (auto& id : supervisor.ids()) {
    supervisor.start(id);
    if (!supervisor.isAwaited(id) || waitsForOthers(id, store, reader)) continue;
    up.add(within(timer, kServicesTimeout, supervisor.whenUp(id),
                  kj::str("service \"", id, "\" did not come up within 15 minutes")));
  }
  return kj::joinPromises(up.releaseAsArray());
}

}  // namespace

extern const BootTask setUserEnvVars = task<renewServices>("setUserEnvVars");

extern const BootTask startAllServices = task<startAll>("startAllServices");

}  // namespace talos::machined::tasks
