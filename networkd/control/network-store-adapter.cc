#include "networkd/control/network-store-adapter.h"

#include "common/base/log.h"

#include <malloc.h>

namespace talos::networkd {

StoreBoard::StoreBoard(StoreClient& store, kj::Function<void()> changedFunction, Lost lostFunction)
    : store(store), changed(kj::mv(changedFunction)), lost(kj::mv(lostFunction)) {
  auto watch = [&]<typename Spec>(Watched<Spec>& watched) {
    watched = store.watch<Spec>([this] { changed(); });
  };
  watch(links);
  watch(wireguardKeys);
  watch(addresses);
  watch(routes);
  watch(hostnames);
  watch(resolvers);
  watch(nodeAddresses);
  // Its own writing is no reason to look again.
  networkStatuses = store.watch<rpc::NetworkStatusSpec>([this] {
    if (!heardOfRepairs) changed();
    heardOfRepairs = networkStatuses.synced();
  });
}

StoreBoard::~StoreBoard() noexcept(false) = default;

bool StoreBoard::synced() const {
  return links.synced() && wireguardKeys.synced() && addresses.synced() && routes.synced() &&
         hostnames.synced() && resolvers.synced() && nodeAddresses.synced() &&
         networkStatuses.synced();
}

kj::Maybe<Intent> StoreBoard::intent() {
  if (!synced()) return nullptr;
  Intent intent;
  for (auto link : links) addLink(intent.wanted, link.id(), link.version(), link);
  for (auto key : wireguardKeys) addWireguardKey(intent.wanted, key.id(), key);
  for (auto address : addresses) {
    if (address.getLayer() == "operator") {
      KJ_IF_MAYBE (prefix, Prefix::parse(address.getAddress())) {
        if (lost(address.getLinkName(), *prefix)) continue;
      }
    }
    addAddress(intent.wanted, address.id(), address.version(), address);
  }
  for (auto route : routes) addRoute(intent.wanted, route.id(), route.version(), route);
  for (auto name : hostnames) intent.hostname = kj::str(name.getHostname());
  for (auto resolver : resolvers) {
    for (auto server : resolver.getDnsServers()) intent.resolvers.add(kj::str(server));
    for (auto domain : resolver.getSearchDomains()) intent.search.add(kj::str(domain));
  }
  for (auto known : nodeAddresses) {
    for (auto text : known.getAddresses()) {
      KJ_IF_MAYBE (ip, Ip::parse(text)) {
        if (known.id() == "default") intent.previous.chosen.add(*ip);
        if (known.id() == "accumulative") intent.previous.known.add(*ip);
      }
    }
  }
  for (auto status : networkStatuses) {
    intent.repairs.count = status.getRepairs();
    for (auto one : status.getRepaired()) {
      intent.repairs.newest.add(
          Repairs::One{one.getNumber(), kj::str(one.getLink()), kj::str(one.getWhat())});
    }
  }
  return kj::mv(intent);
}

size_t cutTo(StoreClient::Wanted& wanted, size_t most) {
  kj::Vector<kj::String> beyond;
  size_t i = 0;
  for (auto& entry : wanted) {
    if (i++ >= most) beyond.add(kj::str(entry.key));
  }
  for (auto& id : beyond) wanted.erase(id);
  return beyond.size();
}

kj::Promise<void> StoreBoard::publish(Report report) {
  auto cut = cutTo(report.links) + cutTo(report.addresses) + cutTo(report.routes);
  if ((cut > 0) != (toldCut > 0)) {
    log::warn(cut > 0 ? "too many links, addresses or routes; not all are shown"_kj
                      : "all links, addresses and routes are shown again"_kj,
              {{"shown", kMostStatuses}, {"more", cut}});
  }
  toldCut = cut;
  co_await store.replaceAll<rpc::LinkStatusSpec>(kj::mv(report.links));
  co_await store.replaceAll<rpc::AddressStatusSpec>(kj::mv(report.addresses));
  co_await store.replaceAll<rpc::RouteStatusSpec>(kj::mv(report.routes));
  co_await store.replaceAll<rpc::NodeAddressSpec>(kj::mv(report.nodeAddresses));
  co_await store.replaceAll<rpc::LinkPlanSpec>(kj::mv(report.plans));
  // What a large network took while it was compared and told is not needed until the next change.
  malloc_trim(0);
  // Last: who waits for `applied` finds everything else already told.
  co_await store.replaceAll<rpc::NetworkStatusSpec>(kj::mv(report.network));
}

kj::Promise<void> publish(StoreClient& store, Bystanders::Report report) {
  KJ_IF_MAYBE (rules, report.rules) {
    co_await store.replaceAll<rpc::RuleStatusSpec>(kj::mv(*rules));
  }
  KJ_IF_MAYBE (neighbours, report.neighbours) {
    co_await store.replaceAll<rpc::NeighbourStatusSpec>(kj::mv(*neighbours));
  }
}

}  // namespace talos::networkd
