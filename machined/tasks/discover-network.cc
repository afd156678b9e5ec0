// setupDiscoveryNetwork of initialize, discoverNetwork: the network as far as it is known without a
// config, for a config that has to be fetched. networkd makes it.
#include "common/base/within.h"
#include "machined/services/supervisor.h"
#include "machined/tasks/task.h"

namespace talos::machined::tasks {
namespace {

constexpr auto kNetworkdPatience = 30 * kj::SECONDS;

kj::Promise<void> startNetworkd(Supervisor& supervisor, kj::Timer& timer) {
  supervisor.start("networkd");
  return within(timer, kNetworkdPatience, supervisor.whenUp("networkd"),
                kj::str("networkd did not come up within ", kNetworkdPatience / kj::SECONDS, " s"));
}

}  // namespace

extern const BootTask discoverNetwork = task<startNetworkd>("setupDiscoveryNetwork");

}  // namespace talos::machined::tasks
