// startAllServices (boot, startEverything): starts every service and waits for those that the boot
// depends on.
#include "common/base/within.h"
#include "machined/boot/tasks/task.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/config/trust/join-controller.h"
#include "machined/services/supervisor.h"

namespace talos::machined::tasks {
namespace {

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

extern const BootTask startAllServices = task<startAll>("startAllServices");

}  // namespace talos::machined::tasks
