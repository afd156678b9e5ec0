// setUserEnvVars (boot, env): applies machine.env to running services. A service gets its variables
// when it starts; a service that was started before the config was loaded is restarted if it lacks
// any of them.
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/within.h"
#include "common/memory/zeroize.h"
#include "machined/boot/tasks/task.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/services/supervisor.h"
#include "machined/system/service-environment.h"

namespace talos::machined::tasks {
namespace {

constexpr auto kRenewTimeout = 30 * kj::SECONDS;

bool lacks(Supervisor& supervisor, kj::StringPtr id, kj::ArrayPtr<const kj::String> wanted) {
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  supervisor.fill(id, service);
  if (service.getPid() == 0 || service.getPid() == getpid()) return false;
  KJ_IF_MAYBE (environ, tryReadFile(kj::str("/proc/", service.getPid(), "/environ"))) {
    KJ_DEFER(zeroize(environ->asArray()));
    return !hasEnvironment(environ->asArray(), wanted);
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

}  // namespace

extern const BootTask setUserEnvVars = task<renewServices>("setUserEnvVars");

}  // namespace talos::machined::tasks
