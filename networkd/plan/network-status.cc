#include "networkd/plan/network-status.h"

#include <kj/debug.h>
#include <linux/if_addr.h>

#include <algorithm>
#include <tuple>

#include "common/base/node-layout.h"
#include "networkd/plan/status-records.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

using netlink::Address;
using netlink::Link;
using netlink::Route;

// --- texts
namespace {

kj::StringPtr scopeName(uint8_t scope) {
  switch (scope) {
    case RT_SCOPE_UNIVERSE:
      return "global";
    case RT_SCOPE_SITE:
      return "site";
    case RT_SCOPE_LINK:
      return "link";
    case RT_SCOPE_HOST:
      return "host";
    case RT_SCOPE_NOWHERE:
      return "nowhere";
    default:
      return "custom";
  }
}

kj::Vector<kj::StringPtr> flagNamesOf(const Address& address) {
  constexpr NamedBit kNames[] = {{IFA_F_PERMANENT, "permanent"_kj},
                                 {IFA_F_SECONDARY, "secondary"_kj},
                                 {IFA_F_TENTATIVE, "tentative"_kj},
                                 {IFA_F_DADFAILED, "duplicate"_kj},
                                 {IFA_F_DEPRECATED, "deprecated"_kj}};
  return namesOf(address.flags, kNames);
}

// Returns an empty text for a route without a target.
kj::String linkOf(const Observed& observed, const Route& route) {
  return route.nowhere() ? kj::String() : nameOf(observed, route.link);
}

// Returns the routes with a known link, in a stable order, the main table first.
kj::Vector<const Route*> shown(const Observed& observed, kj::ArrayPtr<const Route> routes) {
  kj::Vector<const Route*> result;
  for (auto& route : routes) {
    bool known = route.nowhere() || observed.link(route.link) != nullptr;
    if (known) result.add(&route);
  }
  auto place = [](const Route* route) {
    return std::make_tuple(route->table != RT_TABLE_MAIN, route->table, route->destination,
                           route->metric, route->link);
  };
  std::stable_sort(result.begin(), result.end(),
                   [&](const Route* a, const Route* b) { return place(a) < place(b); });
  return result;
}

kj::String textOf(const kj::Maybe<Ip>& ip) {
  KJ_IF_MAYBE (there, ip) return there->toString();
  return kj::String();
}

// A default route's destination is the empty text, as in its spec.
kj::String destinationText(const Route& route) {
  return route.destination.length == 0 ? kj::String() : route.destination.toString();
}

}  // namespace

kj::String protocolName(uint8_t protocol) {
  switch (protocol) {
    case RTPROT_UNSPEC:
      return kj::str("unspec");
    case RTPROT_REDIRECT:
      return kj::str("redirect");
    case RTPROT_KERNEL:
      return kj::str("kernel");
    case RTPROT_BOOT:
      return kj::str("boot");
    case RTPROT_STATIC:
      return kj::str("static");
    case RTPROT_RA:
      return kj::str("ra");
    case RTPROT_DHCP:
      return kj::str("dhcp");
    case kMark:
      return kj::str("talos");
    default:
      return kj::str(protocol);
  }
}

kj::StringPtr familyName(int family) {
  return family == AF_INET ? "inet4" : "inet6";
}

// --- statuses
Records addressStatuses(const Observed& observed) {
  Records records;
  for (auto& address : observed.addresses) {
    auto name = nameOf(observed, address.link);
    insert<rpc::AddressStatusSpec>(
        records, kj::str(name, '/', address.prefix),
        [&](rpc::AddressStatusSpec::Builder spec) {
          spec.setAddress(address.prefix.toString());
          spec.setLinkName(name);
          spec.setLinkIndex(address.link);
          spec.setFamily(familyName(address.prefix.address.family()));
          spec.setScope(scopeName(address.scope));
          auto flags = flagNamesOf(address);
          fillTexts(spec.initFlags(flags.size()), flags);
        },
        kAddressWords);
  }
  return records;
}

Records routeStatuses(const Observed& observed) {
  Records records;
  auto routes = shown(observed, observed.routes);
  auto plainIds = KJ_MAP(route, routes) {
    bool main = route->table == RT_TABLE_MAIN;
    return kj::str(main ? kj::String() : kj::str(netlink::tableName(route->table), '/'),
                   textOf(route->gateway), '/', destinationText(*route));
  };
  kj::HashMap<kj::StringPtr, unsigned> sharing;
  for (auto& id : plainIds) {
    ++sharing.findOrCreate(id, [&] { return kj::HashMap<kj::StringPtr, unsigned>::Entry{id, 0}; });
  }
  auto shares = KJ_MAP(id, plainIds) {
    return KJ_ASSERT_NONNULL(sharing.find(id)) > 1;
  };
  for (size_t i = 0; i < routes.size(); ++i) {
    auto route = routes[i];
    auto id = kj::mv(plainIds[i]);
    bool shared = shares[i];
    auto name = linkOf(observed, *route);
    if (shared) {
      auto place = route->nowhere() ? netlink::routeTypeName(route->type) : kj::StringPtr(name);
      id = kj::str(id, '/', place, '/', route->metric);
    }
    insert<rpc::RouteStatusSpec>(
        records, kj::mv(id),
        [&](rpc::RouteStatusSpec::Builder spec) {
          spec.setFamily(familyName(route->destination.address.family()));
          spec.setDestination(destinationText(*route));
          spec.setGateway(textOf(route->gateway));
          spec.setLinkName(name);
          spec.setMetric(route->metric);
          spec.setScope(scopeName(route->scope));
          spec.setProtocol(protocolName(route->protocol));
          spec.setSource(textOf(route->source));
          spec.setMtu(route->mtu);
          spec.setType(netlink::routeTypeName(route->type));
          spec.setTable(netlink::tableName(route->table));
        },
        kRouteWords);
  }
  return records;
}

// --- addresses of the node
namespace {

bool usable(const Address& address, const Link& link) {
  auto& ip = address.prefix.address;
  bool ready = (address.flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) == 0;
  // A missing cable makes the address useless; a virtual link needs no carrier.
  bool reachable = link.up() && (link.carrier || link.kind.size() > 0);
  // A shared address moves between nodes, so it does not belong to this node.
  // So does the address of the node's resolver, which every node has.
  bool resolver = link.loopback() && ip == Ip::require(kHostDnsPodAddress6);
  bool own = address.protocol != netlink::kSharedAddress && !resolver;
  return own && ready && reachable && address.scope < RT_SCOPE_LINK && !ip.isLoopback() &&
         !ip.isLinkLocal() && !ip.isMulticast();
}

void sortUnique(kj::Vector<Ip>& list) {
  std::sort(list.begin(), list.end());
  list.truncate(std::unique(list.begin(), list.end()) - list.begin());
}

}  // namespace

NodeAddresses nodeAddresses(const Observed& observed, NodeAddresses previous) {
  NodeAddresses result;
  result.chosen = kj::mv(previous.chosen);
  result.known = kj::mv(previous.known);
  kj::Maybe<std::pair<kj::StringPtr, Ip>> first;
  for (auto& address : observed.addresses) {
    KJ_IF_MAYBE (link, observed.link(address.link)) {
      if (!usable(address, *link)) continue;
      result.current.add(address.prefix.address);
      result.known.add(address.prefix.address);
      std::pair<kj::StringPtr, Ip> candidate{link->name, address.prefix.address};
      KJ_IF_MAYBE (best, first) {
        if (candidate < *best) *best = candidate;
      } else {
        first = candidate;
      }
    }
  }
  sortUnique(result.current);
  sortUnique(result.known);
  KJ_IF_MAYBE (best, first) {
    if (result.chosen.size() == 0) result.chosen.add(best->second);
  }
  return result;
}

Records records(const NodeAddresses& addresses) {
  Records result;
  auto add = [&](kj::StringPtr id, const kj::Vector<Ip>& list) {
    insert<rpc::NodeAddressSpec>(result, kj::str(id), [&](rpc::NodeAddressSpec::Builder spec) {
      auto texts = KJ_MAP(ip, list) {
        return ip.toString();
      };
      fillTexts(spec.initAddresses(texts.size()), texts);
    });
  };
  // The default appears once it is known; a reader must not take an empty default for an answer.
  if (addresses.chosen.size() > 0) add("default", addresses.chosen);
  add("current", addresses.current);
  add("accumulative", addresses.known);
  return result;
}

void Repairs::add(kj::String link, kj::String what) {
  if (newest.size() == kMost) {
    kj::Vector<One> rest;
    for (auto& one : newest.slice(1, newest.size())) rest.add(kj::mv(one));
    newest = kj::mv(rest);
  }
  newest.add(One{++count, kj::mv(link), kj::mv(what)});
}

void Repairs::goOnFrom(Repairs before) {
  if (count > 0 || before.count == 0) return;
  count = before.count;
  newest = kj::mv(before.newest);
}

Repairs Repairs::copy() const {
  Repairs result;
  result.count = count;
  for (auto& one : newest) result.newest.add(One{one.number, kj::str(one.link), kj::str(one.what)});
  return result;
}

Records records(const Health& health) {
  Records result;
  insert<rpc::NetworkStatusSpec>(
      result, kj::str("status"), [&](rpc::NetworkStatusSpec::Builder spec) {
        spec.setAddressReady(health.address);
        spec.setConnectivityReady(health.connectivity);
        spec.setHostnameReady(health.hostname);
        spec.setApplied(health.applied);
        spec.setOverruns(health.overruns);
        spec.setRepairs(health.repairs.count);
        auto repaired = spec.initRepaired(health.repairs.newest.size());
        for (auto i : kj::indices(health.repairs.newest)) {
          auto& one = health.repairs.newest[i];
          repaired[i].setNumber(one.number);
          repaired[i].setLink(one.link);
          repaired[i].setWhat(one.what);
        }
        fillTexts(spec.initProblems(health.problems.size()), health.problems);
      });
  return result;
}

constexpr auto kNext = "next"_kj;

Records records(const Undone& undone) {
  Records result;
  kj::Vector<kj::StringPtr> problems;
  for (auto& problem : undone.problems) problems.add(problem);
  for (auto& loss : undone.waiting) {
    if (loss.link == kNext) {  // because a link may have this name
      problems.add(loss.what);
      continue;
    }
    insert<rpc::LinkPlanSpec>(result, kj::str(loss.link), [&](rpc::LinkPlanSpec::Builder spec) {
      spec.initProblems(1).set(0, loss.what);
    });
  }
  if (undone.steps.size() == 0 && problems.size() == 0) return result;
  insert<rpc::LinkPlanSpec>(result, kj::str(kNext), [&](rpc::LinkPlanSpec::Builder spec) {
    fillTexts(spec.initSteps(undone.steps.size()), undone.steps);
    fillTexts(spec.initProblems(problems.size()), problems);
    if (undone.retry > 0 * kj::SECONDS)
      spec.setRetry(kj::str(undone.retry / kj::MILLISECONDS, "ms"));
  });
  return result;
}

bool hasDefaultRoute(const Observed& observed) {
  for (auto& route : observed.routes) {
    bool usual = route.table == RT_TABLE_MAIN && route.type == RTN_UNICAST;
    if (usual && route.destination.length == 0 && observed.link(route.link) != nullptr) return true;
  }
  return false;
}

// --- the API
void fillInterfaces(const Observed& observed, rpc::Network::InterfacesResults::Builder out) {
  auto list = out.initInterfaces(observed.links.size());
  for (size_t i = 0; i < observed.links.size(); ++i) {
    auto& link = observed.links[i];
    auto entry = list[i];
    entry.setIndex(link.index);
    entry.setMtu(link.mtu);
    entry.setName(link.name);
    entry.setHardwareAddress(netlink::hardwareText(link.hardwareAddress));
    auto flags = flagNames(link.flags);
    fillTexts(entry.initFlags(flags.size()), flags);
    kj::Vector<kj::String> addresses;
    for (auto& address : observed.addresses) {
      if (address.link == link.index) addresses.add(address.prefix.toString());
    }
    fillTexts(entry.initAddresses(addresses.size()), addresses);
  }
}

void fillRoutes(const Observed& observed, kj::ArrayPtr<const Route> all,
                rpc::Network::RoutesResults::Builder out) {
  auto routes = shown(observed, all);
  auto list = out.initRoutes(routes.size());
  for (size_t i = 0; i < routes.size(); ++i) {
    auto& route = *routes[i];
    auto entry = list[i];
    int family = route.destination.address.family();
    auto hostOr = [&](const kj::Maybe<Ip>& ip) {
      KJ_IF_MAYBE (there, ip) return Prefix::host(*there).toString();
      return Prefix::all(family).toString();
    };
    entry.setInterface(linkOf(observed, route));
    entry.setDestination(route.destination.toString());
    entry.setGateway(hostOr(route.gateway));
    entry.setMetric(route.metric);
    entry.setScope(scopeName(route.scope));
    entry.setSource(hostOr(route.source));
    entry.setFamily(familyName(family));
    entry.setProtocol(protocolName(route.protocol));
    entry.setFlags(route.flags);
    entry.setTable(netlink::tableName(route.table));
    entry.setType(netlink::routeTypeName(route.type));
  }
}

}  // namespace talos::networkd
