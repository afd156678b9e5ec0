#include "networkd/control/store-board.h"

#include <malloc.h>

namespace talos::networkd {

StoreBoard::StoreBoard(StoreClient& store, kj::Function<void()> changedFunction, Lost lostFunction)
    : store(store), changed(kj::mv(changedFunction)), lost(kj::mv(lostFunction)) {
  auto watch = [&](kj::StringPtr type) { return store.watch(type, [this] { changed(); }); };
  links = watch("LinkSpecs.net.talos.dev");
  wireguardKeys = watch("WireguardKeys.secrets.talos.dev");
  addresses = watch("AddressSpecs.net.talos.dev");
  routes = watch("RouteSpecs.net.talos.dev");
  hostnames = watch("HostnameSpecs.net.talos.dev");
  resolvers = watch("ResolverSpecs.net.talos.dev");
  nodeAddresses = watch("NodeAddresses.net.talos.dev");
  // Its own writing is no reason to look again.
  networkStatuses = store.watch("NetworkStatuses.net.talos.dev", [this] {
    if (!heardOfRepairs) changed();
    heardOfRepairs = networkStatuses->synced();
  });
}

StoreBoard::~StoreBoard() noexcept(false) = default;

kj::Maybe<Intent> StoreBoard::intent() {
  for (auto watched : {&links, &wireguardKeys, &addresses, &routes, &hostnames, &resolvers,
                       &nodeAddresses, &networkStatuses}) {
    if (!(*watched)->synced()) return nullptr;
  }
  Intent intent;
  for (auto& [id, held] : links->resources()) {
    addLink(intent.wanted, id, held.get().getMetadata().getVersion(),
            held.spec<rpc::LinkSpecSpec>());
  }
  for (auto& [id, held] : wireguardKeys->resources()) {
    addWireguardKey(intent.wanted, id, held.spec<rpc::WireguardKeySpec>());
  }
  for (auto& [id, held] : addresses->resources()) {
    auto spec = held.spec<rpc::AddressSpecSpec>();
    if (spec.getLayer() == "operator") {
      KJ_IF_MAYBE (prefix, Prefix::parse(spec.getAddress())) {
        if (lost(spec.getLinkName(), *prefix)) continue;
      }
    }
    addAddress(intent.wanted, id, held.get().getMetadata().getVersion(), spec);
  }
  for (auto& [id, held] : routes->resources()) {
    addRoute(intent.wanted, id, held.get().getMetadata().getVersion(),
             held.spec<rpc::RouteSpecSpec>());
  }
  for (auto& [id, held] : hostnames->resources()) {
    auto spec = held.spec<rpc::HostnameSpecSpec>();
    intent.hostname = kj::str(spec.getHostname());
  }
  for (auto& [id, held] : resolvers->resources()) {
    for (auto server : held.spec<rpc::ResolverSpecSpec>().getDnsServers()) {
      intent.resolvers.add(kj::str(server));
    }
    for (auto domain : held.spec<rpc::ResolverSpecSpec>().getSearchDomains()) {
      intent.search.add(kj::str(domain));
    }
  }
  for (auto& [id, held] : nodeAddresses->resources()) {
    for (auto text : held.spec<rpc::NodeAddressSpec>().getAddresses()) {
      KJ_IF_MAYBE (ip, Ip::parse(text)) {
        if (id == "default") intent.previous.chosen.add(*ip);
        if (id == "accumulative") intent.previous.known.add(*ip);
      }
    }
  }
  for (auto& [id, held] : networkStatuses->resources()) {
    auto status = held.spec<rpc::NetworkStatusSpec>();
    intent.repairs.count = status.getRepairs();
    for (auto one : status.getRepaired()) {
      intent.repairs.newest.add(
          Repairs::One{one.getNumber(), kj::str(one.getLink()), kj::str(one.getWhat())});
    }
  }
  return kj::mv(intent);
}

kj::Promise<void> StoreBoard::publish(Report report) {
  co_await store.replaceAll<rpc::LinkStatusSpec>("LinkStatuses.net.talos.dev",
                                                 kj::mv(report.links));
  co_await store.replaceAll<rpc::AddressStatusSpec>("AddressStatuses.net.talos.dev",
                                                    kj::mv(report.addresses));
  co_await store.replaceAll<rpc::RouteStatusSpec>("RouteStatuses.net.talos.dev",
                                                  kj::mv(report.routes));
  co_await store.replaceAll<rpc::NodeAddressSpec>("NodeAddresses.net.talos.dev",
                                                  kj::mv(report.nodeAddresses));
  co_await store.replaceAll<rpc::LinkPlanSpec>("LinkPlans.net.talos.dev", kj::mv(report.plans));
  // What a large network took while it was compared and told is not needed until the next change.
  malloc_trim(0);
  // Last: who waits for `applied` finds everything else already told.
  co_await store.replaceAll<rpc::NetworkStatusSpec>("NetworkStatuses.net.talos.dev",
                                                    kj::mv(report.network));
}

kj::Promise<void> publish(StoreClient& store, Bystanders::Report report) {
  KJ_IF_MAYBE (rules, report.rules) {
    co_await store.replaceAll<rpc::RuleStatusSpec>("RuleStatuses.net.talos.dev", kj::mv(*rules));
  }
  KJ_IF_MAYBE (neighbours, report.neighbours) {
    co_await store.replaceAll<rpc::NeighbourStatusSpec>("NeighbourStatuses.net.talos.dev",
                                                        kj::mv(*neighbours));
  }
}

}  // namespace talos::networkd
