// setupDiscoveryNetwork of initialize, setupNetwork: waits until the network is what the config
// asks for. A machine that is reachable in part can be repaired; one that stops here cannot.
#include "machined/boot/tasks/network-complete.h"
#include "machined/boot/tasks/task.h"
#include "machined/logs/node-console.h"

namespace talos::machined::tasks {
namespace {

constexpr auto kNetworkPatience = 30 * kj::SECONDS;

kj::Promise<void> awaitNetwork(Store& store, ControllerRuntime& controllers, kj::Timer& timer,
                               Console& console) {
  auto lacking = co_await networkComplete(store, controllers, timer, kNetworkPatience);
  KJ_IF_MAYBE (what, lacking) {
    console.say(kj::str("warning: the network is not ready after ", kNetworkPatience / kj::SECONDS,
                        " s: ", *what));
  }
}

}  // namespace

extern const BootTask setupNetwork = task<awaitNetwork>("setupDiscoveryNetwork");

}  // namespace talos::machined::tasks
