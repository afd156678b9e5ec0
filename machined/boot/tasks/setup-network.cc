// setupDiscoveryNetwork of initialize, setupNetwork: waits for the network that the config
// requests. A partly reachable machine can be repaired; a machine whose boot stops here cannot.
#include "machined/boot/tasks/network-complete.h"
#include "machined/boot/tasks/task.h"
#include "machined/logs/node-console.h"

namespace talos::machined::tasks {
namespace {

constexpr auto kNetworkTimeout = 30 * kj::SECONDS;

kj::Promise<void> awaitNetwork(Store& store, ControllerRuntime& controllers, kj::Timer& timer,
                               Console& console) {
  auto lacking = co_await networkComplete(store, controllers, timer, kNetworkTimeout);
  KJ_IF_MAYBE (what, lacking) {
    console.say(kj::str("warning: the network is not ready after ", kNetworkTimeout / kj::SECONDS,
                        " s: ", *what));
  }
}

}  // namespace

extern const BootTask setupNetwork = task<awaitNetwork>("setupDiscoveryNetwork");

}  // namespace talos::machined::tasks
