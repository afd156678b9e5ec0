// setUserEnvVars (boot, env): machine.env for the services that run already. Services are given
// their variables when they are started; those that run since before there was a config are started
// again if they lack any.
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

constexpr auto kRenewPatience = 30 * kj::SECONDS;

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
    // In a container it may be about to start, with what was known before the config was.
    co_await within(
        timer, kRenewPatience, supervisor.whenStarted(id),
        kj::str("service \"", id, "\" did not start within ", kRenewPatience / kj::SECONDS, " s"));
    if (!lacks(supervisor, id, wanted)) continue;
    co_await supervisor.stop(id);
    supervisor.start(id);
    co_await within(timer, kRenewPatience, supervisor.whenUp(id),
                    kj::str("service \"", id, "\" did not come up again within ",
                            kRenewPatience / kj::SECONDS, " s"));
  }
}

}  // namespace

extern const BootTask setUserEnvVars = task<renewServices>("setUserEnvVars");

}  // namespace talos::machined::tasks
