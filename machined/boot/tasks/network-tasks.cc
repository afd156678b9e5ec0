// Tasks of the network: its first files, and networkd before and after the config is known.
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/base/within.h"
#include "machined/boot/tasks/network-complete.h"
#include "machined/boot/tasks/task.h"
#include "machined/logs/node-console.h"
#include "machined/services/supervisor.h"
#include "machined/system/etc-files.h"

namespace talos::machined::tasks {
namespace {

// createEtcNetworkFiles (initialize, etc): writes the first hosts, hostname and resolv.conf.

void writeNetworkFiles() {
  auto name = kernelHostname();
  writeFirstHostsFile("", name);
  writeEtcFile("", "hostname", kj::str(name, "\n"));
  // networkd owns the resolver file, in a folder that it may write to.
  makeDirectories(kNetworkdState, 0755);
  KJ_SYSCALL(chown(kNetworkdState.cStr(), kNetworkdUid, kNetworkdUid));
  auto target = kj::str(kNetworkdState, "/resolv.conf");
  auto link = "/system/etc/resolv.conf";
  unlink(link);
  KJ_SYSCALL(symlink(target.cStr(), link));
}

// setupDiscoveryNetwork of initialize, discoverNetwork: starts networkd, which sets up the network
// that needs no config, so that a config can be fetched.

constexpr auto kNetworkdTimeout = 30 * kj::SECONDS;

kj::Promise<void> startNetworkd(Supervisor& supervisor, kj::Timer& timer) {
  supervisor.start("networkd");
  return within(timer, kNetworkdTimeout, supervisor.whenUp("networkd"),
                kj::str("networkd did not come up within ", kNetworkdTimeout / kj::SECONDS, " s"));
}

// setupDiscoveryNetwork of initialize, setupNetwork: waits for the network that the config
// requests. A partly reachable machine can be repaired; a machine whose boot stops here cannot.

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

extern const BootTask createEtcNetworkFiles = task<writeNetworkFiles>("createEtcNetworkFiles");

extern const BootTask discoverNetwork = task<startNetworkd>("setupDiscoveryNetwork");
// The launcher of a container has set up the network, and the config does not come over the
// network. So nothing waits here: networkd and apid become ready while the config is loaded, and
// until apid has certificates it serves only maintenance mode.
extern const BootTask beginNetwork = task<startApi>("setupDiscoveryNetwork");

extern const BootTask setupNetwork = task<awaitNetwork>("setupDiscoveryNetwork");

}  // namespace talos::machined::tasks
