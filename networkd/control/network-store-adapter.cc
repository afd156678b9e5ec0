#include "networkd/control/network-store-adapter.h"

#include "common/base/log.h"

#include <malloc.h>

namespace talos::networkd {

StoreAdapter::StoreAdapter(StoreClient& store, kj::Function<void()> changed, Lost lost)
    : store(store), inputs(store, kj::mv(changed)), lost(kj::mv(lost)) {
  inputs.watch(links);
  inputs.watch(wireguardKeys);
  inputs.watch(addresses);
  inputs.watch(routes);
  inputs.watch(rules);
  inputs.watch(hostnames);
  inputs.watch(resolvers);
  inputs.watch(nodeAddresses);
  // This process's own writes must not cause a read.
  inputs.watch(networkStatuses, "", [this] {
    if (!hasRepairs) inputs.announce();
    hasRepairs = networkStatuses.synced();
  });
  inputs.watch(probes, "", [this] { compareProbes(); });
  inputs.watch(probeStatuses, "", [this] { compareProbes(); });
}

StoreAdapter::~StoreAdapter() noexcept(false) = default;

// A probe that fails with another error every second is no reason to read the kernel's network. A
// probe without a status has not succeeded.
void StoreAdapter::compareProbes() {
  if (!probes.synced() || !probeStatuses.synced()) return;
  kj::Maybe<bool> all;
  for (auto probe : probes) {
    auto status = probeStatuses.find(probe.id());
    bool success = status.map([](auto& s) { return s.getSuccess(); }).orDefault(false);
    all = all.orDefault(true) && success;
  }
  if (hasProbes && all == probesSucceed) return;
  hasProbes = true;
  probesSucceed = all;
  inputs.announce();
}

kj::Maybe<Intent> StoreAdapter::intent() {
  if (!inputs.synced()) return nullptr;
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
  for (auto rule : rules) addRule(intent.wanted, rule.id(), rule.version(), rule);
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
  intent.probes = probesSucceed;
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

kj::Promise<void> StoreAdapter::publish(Report report) {
  auto cut = cutTo(report.links) + cutTo(report.addresses) + cutTo(report.routes);
  if ((cut > 0) != (loggedCut > 0)) {
    log::warn(cut > 0 ? "too many links, addresses or routes; not all are shown"_kj
                      : "all links, addresses and routes are shown again"_kj,
              {{"shown", kMostStatuses}, {"more", cut}});
  }
  loggedCut = cut;
  co_await store.replaceAll<rpc::LinkStatusSpec>(kj::mv(report.links));
  co_await store.replaceAll<rpc::AddressStatusSpec>(kj::mv(report.addresses));
  co_await store.replaceAll<rpc::RouteStatusSpec>(kj::mv(report.routes));
  co_await store.replaceAll<rpc::NodeAddressSpec>(kj::mv(report.nodeAddresses));
  co_await store.replaceAll<rpc::LinkPlanSpec>(kj::mv(report.plans));
  // Returns the memory that a large network needed for comparing and reporting, until the next
  // change.
  malloc_trim(0);
  // Written last: a reader that waits for `applied` finds everything else reported.
  co_await store.replaceAll<rpc::NetworkStatusSpec>(kj::mv(report.network));
}

kj::Promise<void> publish(StoreClient& store, RuleNeighbourReporter::Report report) {
  KJ_IF_MAYBE (rules, report.rules) {
    co_await store.replaceAll<rpc::RuleStatusSpec>(kj::mv(*rules));
  }
  KJ_IF_MAYBE (neighbours, report.neighbours) {
    co_await store.replaceAll<rpc::NeighbourStatusSpec>(kj::mv(*neighbours));
  }
}

}  // namespace talos::networkd
