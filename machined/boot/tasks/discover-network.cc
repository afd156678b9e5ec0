// setupDiscoveryNetwork of initialize, discoverNetwork: the network as far as it is known without a
// config, for a config that has to be fetched. networkd makes it.
#include "common/base/within.h"
#include "machined/boot/tasks/task.h"
#include "machined/services/supervisor.h"

namespace talos::machined::tasks {
namespace {

constexpr auto kNetworkdPatience = 30 * kj::SECONDS;

kj::Promise<void> startNetworkd(Supervisor& supervisor, kj::Timer& timer) {
  supervisor.start("networkd");
  return within(timer, kNetworkdPatience, supervisor.whenUp("networkd"),
                kj::str("networkd did not come up within ", kNetworkdPatience / kj::SECONDS, " s"));
}

// The launcher of a container has set up the network, and the config does not come over it. So
// nobody waits here: networkd and apid become ready while the config is looked for, and apid
// listens to nobody but visitors of maintenance mode before it has certificates.
void beginServices(Supervisor& supervisor) {
  supervisor.start("networkd");
  supervisor.start("apid");
}

}  // namespace

extern const BootTask discoverNetwork = task<startNetworkd>("setupDiscoveryNetwork");
extern const BootTask beginNetwork = task<beginServices>("setupDiscoveryNetwork");

}  // namespace talos::machined::tasks
