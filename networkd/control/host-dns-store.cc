#include "networkd/control/host-dns-store.h"

#include <algorithm>

namespace talos::networkd {
namespace {

void addHosts(dns::Hosts& hosts, capnp::List<rpc::HostDnsConfigSpec::Host>::Reader list) {
  for (auto host : list) {
    KJ_IF_MAYBE (address, Ip::parse(host.getAddress())) {
      for (auto name : host.getNames()) hosts.add(name, address->unmapped());
    }
  }
}

}  // namespace

WantedHostDns wantedHostDns(const ResourceOf<rpc::HostDnsConfigSpec>& spec,
                            kj::ArrayPtr<const kj::String> upstreams) {
  WantedHostDns wanted;
  wanted.version = spec.version();
  wanted.enabled = spec.getEnabled();
  if (!wanted.enabled) return wanted;
  auto problem = [&](auto&&... parts) {
    wanted.problems.push_back(kj::str(kj::fwd<decltype(parts)>(parts)...).cStr());
  };
  for (auto text : spec.getListenAddresses()) {
    KJ_IF_MAYBE (address, Endpoint::parse(text)) {
      wanted.addresses.push_back(*address);
    } else {
      problem("\"", text, "\" is not an address and a port");
    }
  }
  auto& list = wanted.settings.upstreams;
  for (auto& text : upstreams) {
    KJ_IF_MAYBE (address, Ip::parse(text)) {
      Endpoint upstream{address->unmapped(), dns::kPort};
      auto contains = [&](const std::vector<Endpoint>& endpoints) {
        return std::find(endpoints.begin(), endpoints.end(), upstream) != endpoints.end();
      };
      if (contains(wanted.addresses)) {
        problem("the name server ", text, " is the node's own resolver; set another");
      } else if (!contains(list)) {
        list.push_back(upstream);
      }
    }
  }
  if (list.empty()) problem("there is no name server");
  addHosts(wanted.settings.hosts, spec.getHosts());
  addHosts(wanted.settings.members, spec.getMembers());
  return wanted;
}

HostDnsStore::HostDnsStore(StoreClient& store)
    : store(store), watches(store, [this] { changed.raise(); }) {
  watches.watch(configs);
  watches.watch(resolvers);
  // This process's own writes must not cause a read.
  watches.watch(statuses, "", [this] {
    if (!known) watches.announce();
    known = statuses.synced();
  });
}

HostDnsInputs HostDnsStore::inputs() {
  return {[this] { return read(); },
          [this](Records records) {
            return store.replaceAll<rpc::HostDnsStatusSpec>(kj::mv(records));
          }};
}

kj::Maybe<WantedHostDns> HostDnsStore::read() {
  if (!watches.synced()) return nullptr;
  kj::Vector<kj::String> upstreams;
  for (auto resolver : resolvers) {
    for (auto server : resolver.getDnsServers()) upstreams.add(kj::str(server));
  }
  WantedHostDns wanted;
  for (auto config : configs) wanted = wantedHostDns(config, upstreams);  // there is one
  wanted.reported = statuses.begin() != statuses.end();
  return kj::mv(wanted);
}

}  // namespace talos::networkd
