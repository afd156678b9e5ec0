// networkd: the network of a node. Wiring only; network-reconciler.h describes its work.
//
// Its environment names the listening unix socket that its supervisor holds, machined's socket, and
// the folder of resolv.conf and of leases; its arguments (common/base/node-layout.h) name a
// peculiarity of the platform's DHCP servers and the naming scheme of cards. Needs CAP_NET_ADMIN,
// CAP_NET_RAW and CAP_NET_BIND_SERVICE and nothing else; the exec wrapper that starts it drops the
// rest.
#include <algorithm>
#include <random>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/memory/process-memory.h"
#include "common/net/dns-resolver.h"
#include "common/wire/rpc-server.h"
#include "networkd/control/ethernet-reconciler.h"
#include "networkd/control/filter-specs.h"
#include "networkd/control/host-dns-store.h"
#include "networkd/control/network-store-adapter.h"
#include "networkd/control/networkd-server.h"
#include "networkd/control/operator-manager.h"

namespace talos::networkd {

// The tables of the packet filter: the block of the metadata service, and the firewall.
class PacketTables {
 public:
  PacketTables(kj::Timer& timer, StoreClient& store)
      : metadataSpecs(store),
        firewallSpecs(store),
        metadata(*filter, timer, metadataSpecs.changed, metadataSpecs.tableInputs()),
        firewall(*filter, timer, firewallSpecs.changed, firewallSpecs.tableInputs()) {}
  KJ_DISALLOW_COPY_AND_MOVE(PacketTables);

  kj::Promise<void> run() { return metadata.run().exclusiveJoin(firewall.run()); }

 private:
  kj::Own<PacketFilter> filter = openPacketFilter();
  FilterSpecs<MetadataFilter> metadataSpecs;
  FilterSpecs<FirewallFilter> firewallSpecs;
  PacketTable metadata, firewall;
};

// The settings of the drivers of links.
class LinkDrivers {
 public:
  LinkDrivers(kj::UnixEventPort& port, kj::Timer& timer, StoreClient& store,
              netlink::Kernel& kernel)
      : monitor(netlink::openMonitor(port, EthernetReconciler::kMonitorBuffer,
                                     EthernetReconciler::kSubjects)),
        specs(store),
        reconciler(kernel, *monitor, *ethtool, timer, specs.changed, specs.inputs()) {}
  KJ_DISALLOW_COPY_AND_MOVE(LinkDrivers);

  kj::Promise<void> run() { return reconciler.run(); }

 private:
  kj::Own<netlink::Monitor> monitor;
  kj::Own<netlink::Ethtool> ethtool = netlink::openEthtool();
  EthernetSpecs specs;
  EthernetReconciler reconciler;
};

void run(bool asksForMtu, bool predictableNames) {
  refuseCoreDumps();  // because of WireGuard keys
  auto listening = inheritedSocket(kListenUnixVariable);
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  std::mt19937 generator(std::random_device{}());
  std::uniform_real_distribution<double> unit(0, 1);

  auto kernel = netlink::openKernel();
  auto monitor = netlink::openMonitor(io.unixEventPort, NetworkReconciler::kMonitorBuffer,
                                      NetworkReconciler::kSubjects);
  auto state = networkdState();
  auto host = openHost(io.unixEventPort, state, predictableNames);
  StoreClient store(*io.lowLevelProvider, timer, machinedSocket(), kj::str("networkd"));
  Signal changed;
  auto operatorMonitor = netlink::openMonitor(io.unixEventPort, 1 << 20, {.routes = false});
  OperatorManager operators(
      io.unixEventPort, timer, store, *kernel, *operatorMonitor, state, asksForMtu,
      [&] { return uint64_t(generator()) << 32 | generator(); }, [&] { changed.raise(); });
  StoreAdapter adapter(
      store, [&] { changed.raise(); },
      [&](kj::StringPtr link, const Prefix& address) { return operators.lost(link, address); });
  auto lookUp = [&](kj::String host, kj::String servers) {
    return resolve(io.unixEventPort, timer, host, {.servers = servers});
  };
  Endpoints endpoints(timer, lookUp, [&] { changed.raise(); });
  std::random_device entropy;
  auto upstreams = dns::openUpstreamNetwork(io.unixEventPort, *io.lowLevelProvider,
                                            [&] { return uint16_t(entropy()); });
  HostDnsStore hostDnsStore(store);
  HostDns hostDns(io.unixEventPort, *io.lowLevelProvider, timer, *upstreams, hostDnsStore.changed,
                  hostDnsStore.inputs(), [&] { changed.raise(); });
  NetworkReconciler reconciler(
      *kernel, *monitor, adapter, *host, timer, changed, [&] { return unit(generator); }, endpoints,
      hostDns);
  auto ruleMonitor = netlink::openMonitor(io.unixEventPort, RuleNeighbourReporter::kMonitorBuffer,
                                          RuleNeighbourReporter::kSubjects);
  RuleNeighbourReporter ruleReporter(
      *kernel, *ruleMonitor, timer,
      [&](RuleNeighbourReporter::Report report) { return publish(store, kj::mv(report)); });
  PacketTables tables(timer, store);
  LinkDrivers drivers(io.unixEventPort, timer, store, *kernel);
  auto captures = openCaptures(io.unixEventPort, timer);
  Rules rules(capnp::Schema::from<rpc::Network>());
  RequestTrace trace(timer, rules);
  auto serving = serveUnix(*io.lowLevelProvider, timer, kj::mv(listening), [&](const UnixPeer&) {
    return makeServer(reconciler, *captures, trace);
  });
  log::info("listening");
  reconciler.run()
      .exclusiveJoin(operators.run())
      .exclusiveJoin(ruleReporter.run())
      .exclusiveJoin(tables.run())
      .exclusiveJoin(drivers.run())
      .exclusiveJoin(hostDns.run())
      .exclusiveJoin(kj::mv(serving))
      .wait(io.waitScope);
}

}  // namespace talos::networkd

int main(int argc, char** argv) {
  talos::crash::reportCrashes("networkd");
  auto arguments = kj::arrayPtr(argv, argc).slice(1, argc);
  auto has = [&](kj::StringPtr wanted) {
    return std::any_of(arguments.begin(), arguments.end(), [&](auto a) { return wanted == a; });
  };
  auto failure = kj::runCatchingExceptions(
      [&] { talos::networkd::run(!has(talos::kDhcpWithoutMtu), has(talos::kPredictableNames)); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // The loops end only by failing; the supervisor restarts networkd.
}
