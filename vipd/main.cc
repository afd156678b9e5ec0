// vipd: holds the addresses that control-plane nodes share. Wiring only; vip-candidate.h describes
// the election, fence-times.h the kernel's part.
//
// Its environment names machined's socket (common/base/node-layout.h); vipd reaches etcd on the
// loopback interface, and the API of a provider that assigns an address (provider.h). Needs
// CAP_NET_ADMIN and CAP_NET_RAW and nothing else. On SIGTERM it hands the addresses over, and
// exits.
#include <signal.h>

#include <random>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/etcd/etcd-client.h"
#include "common/memory/process-memory.h"
#include "common/netlink/netlink-connections.h"
#include "vipd/hcloud.h"
#include "vipd/vip-store-adapter.h"

namespace talos::vipd {

void run() {
  refuseCoreDumps();
  kj::UnixEventPort::captureSignal(SIGTERM);
  auto io = kj::setupAsyncIo();
  auto& lowLevel = *io.lowLevelProvider;
  auto& timer = io.provider->getTimer();
  std::mt19937 generator(std::random_device{}());
  std::uniform_real_distribution<double> unit(0, 1);

  auto kernel = netlink::openKernel();
  auto monitor = netlink::openMonitor(io.unixEventPort, 1 << 20, {.routes = false});
  auto guard = makeGuard();
  auto announcer = makeAnnouncer();
  TlsEndpoint tls;
  etcd::EtcdClient etcd(lowLevel, timer, tls, Endpoint{Ip::require("127.0.0.1"), kEtcdPort});
  HcloudDependencies hcloud{{lowLevel, io.unixEventPort, timer},
                            [] { return readFile(kAuthoritiesBundle, 8u << 20); }};
  Dependencies deps{
      .etcd = etcd,
      .timer = timer,
      .clock = kj::systemPreciseMonotonicClock(),
      .calendar = kj::systemPreciseCalendarClock(),
      .kernel = *kernel,
      .guard = *guard,
      .announcer = *announcer,
      .chance = [&] { return unit(generator); },
      .endConnections = [](const Ip& address) { netlink::endConnectionsToItself(address); },
      .endStalledPeers = [] { return netlink::endStalledConnections(kEtcdPeerPort); },
      .hcloud =
          [&](const Ip& address, kj::StringPtr token) {
            return hcloudProvider(hcloud, address, kj::str(token));
          }};
  StoreClient store(lowLevel, timer, machinedSocket(), kj::str("vipd"));
  Signal work;
  StoreAdapter adapter(store, tls, [&] { work.raise(); });
  VipManager vips(deps, *monitor, adapter, work);
  releaseStartMemory();
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  log::info("waiting for shared addresses");
  auto stopped = io.unixEventPort.onSignal(SIGTERM).then(
      [&](siginfo_t) { return vips.stop("vipd of this node has stopped"); });
  vips.run().exclusiveJoin(kj::mv(stopped)).wait(io.waitScope);
  log::info("exiting");
}

}  // namespace talos::vipd

int main(int, char**) {
  talos::crash::reportCrashes("vipd");
  auto failure = kj::runCatchingExceptions([] { talos::vipd::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
    return 1;
  }
  return 0;
}
