// setupDiscoveryNetwork of initialize, discoverNetwork: starts networkd, which sets up the network
// that needs no config, so that a config can be fetched.
#include "common/base/within.h"
#include "machined/boot/tasks/task.h"
#include "machined/services/supervisor.h"

namespace talos::machined::tasks {
namespace {

constexpr auto kNetworkdTimeout = 30 * kj::SECONDS;

kj::Promise<void> startNetworkd(Supervisor& supervisor, kj::Timer& timer) {
  supervisor.start("networkd");
  return within(timer, kNetworkdTimeout, supervisor.whenUp("networkd"),
                kj::str("networkd did not come up within ", kNetworkdTimeout / kj::SECONDS, " s"));
}

}  // namespace

extern const BootTask discoverNetwork = task<startNetworkd>("setupDiscoveryNetwork");
// The launcher of a container has set up the network, and the config does not come over the
// network. So nothing waits here: networkd and apid become ready while the config is loaded, and
// until apid has certificates it serves only maintenance mode.
extern const BootTask beginNetwork = task<startApi>("setupDiscoveryNetwork");

}  // namespace talos::machined::tasks
