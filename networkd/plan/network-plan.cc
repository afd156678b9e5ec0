#include "networkd/plan/network-plan.h"

#include <kj/debug.h>
#include <linux/if_addr.h>

#include <algorithm>

#include "networkd/plan/plan-links.h"

namespace talos::networkd {

using netlink::Address;
using netlink::Link;
using netlink::Route;

namespace {

// Most link names in a message: there may be thousands of links, and a message for each route.
constexpr size_t kMostNames = 16;
// The kernel's value for metric 0.
constexpr unsigned kDefaultMetric6 = 1024;
constexpr kj::StringPtr kOtherLink = "; set the route on the link whose network has the gateway"_kj;

unsigned metricOf(const WantedRoute& route) {
  bool six = route.destination.address.family() == AF_INET6;
  return six && route.metric == 0 ? kDefaultMetric6 : route.metric;
}

bool goesNowhere(const WantedRoute& route) {
  return route.type != RTN_UNICAST;
}

// Returns " in table 77"; empty for the main table.
kj::String inTable(uint32_t table) {
  return table == RT_TABLE_MAIN ? kj::String() : kj::str(" in table ", netlink::tableName(table));
}

kj::String nameOf(const WantedRoute& route, kj::StringPtr link) {
  auto table = inTable(route.table);
  if (goesNowhere(route)) {
    return kj::str(netlink::routeTypeName(route.type), " route ", route.destination, table);
  }
  auto destination = route.destination.toString();
  KJ_IF_MAYBE (gateway, route.gateway) {
    return kj::str("route ", destination, " via ", *gateway, " on ", link, table);
  }
  return kj::str("route ", destination, " on ", link, table);
}

// A comparison; its members are filled in the order of the methods.
class Planner {
 public:
  Planner(const Wanted& wanted, const Observed& observed)
      : wanted(wanted), observed(observed), links(wanted, observed, result) {
    for (size_t i = 0; i < observed.addresses.size(); ++i) {
      keepAddress.add(false);
      givesWay.add(false);
    }
    for (size_t i = 0; i < observed.routes.size(); ++i) keepRoute.add(false);
    for (size_t i = 0; i < observed.rules.size(); ++i) keepRule.add(false);
    addressesOf.take(observed.addresses, [](const Address& a) { return a.link; });
    routesTo.take(observed.routes, [](const Route& r) { return keyOf(r.destination, r.metric); });
  }

  Plan run() {
    setLinks = links.run();
    planLoopback();
    for (auto& address : wanted.addresses) makeRoom(address);
    for (auto address : inOrder(wanted.addresses)) planAddress(*address);
    for (auto& route : wanted.routes) planRoute(route);
    for (auto& rule : wanted.rules) planRule(rule);
    removeStale();
    removeStaleRules();

    // Removals before additions: a place must be free before another object takes it. Links before
    // addresses before routes before rules: each needs the previous.
    auto lists = {&removeRules,  &removeRoutes, &removeAddresses, &setLinks,
                  &addAddresses, &addOnLink,    &addRoutes,       &addRules};
    size_t count = 0;
    for (auto list : lists) count += list->size();
    result.steps.reserve(count);
    for (auto list : lists) {
      for (auto& step : *list) result.steps.add(kj::mv(step));
    }
    return kj::mv(result);
  }

 private:
  const Wanted& wanted;
  const Observed& observed;
  Plan result;
  kj::Vector<Step> removeRules, removeRoutes, removeAddresses;
  kj::Vector<Step> setLinks, addAddresses, addOnLink, addRoutes, addRules;
  kj::Vector<bool> keepAddress, keepRoute, keepRule, givesWay;
  Positions addressesOf, routesTo;   // by link; by destination and metric
  kj::HashSet<kj::StringPtr> added;  // texts of the steps that add
  LinkPlanner links;

  template <typename... Parts>
  void problem(Parts&&... parts) {
    result.problems.add(kj::str(kj::fwd<Parts>(parts)...));
  }

  static void add(kj::Vector<Step>& list, netlink::Change change, kj::String what) {
    list.add(Step{kj::mv(change), kj::mv(what)});
  }

  // Skips a second spec for the same object.
  void addOnce(kj::Vector<Step>& list, netlink::Change change, kj::String what) {
    if (added.contains(what)) return;
    add(list, kj::mv(change), kj::mv(what));
    added.insert(list.back().what);
  }

  // Returns the link of a spec, or adds a problem that names the existing links.
  template <typename Text>
  kj::Maybe<const Link&> find(kj::StringPtr name, Text&& forWhat) {
    if (links.isNew(name)) return nullptr;  // The next plan adds it, once the link exists.
    KJ_IF_MAYBE (link, observed.link(name)) {
      if (!links.goesAway(link->index)) return *link;
    }
    problem(forWhat(), ": unknown link \"", name, "\"; known links: ", linkNames(observed));
    return nullptr;
  }

  void planLoopback() {
    for (auto& link : observed.links) {
      if (!link.loopback()) continue;
      if (!link.up()) continue;  // The link gets its addresses by itself when it goes up.
      auto want = [&](kj::StringPtr text) {
        WantedAddress address{.link = kj::str(link.name),
                              .prefix = KJ_ASSERT_NONNULL(Prefix::parse(text)),
                              .scope = RT_SCOPE_HOST};
        planAddress(address);
      };
      want("127.0.0.1/8");
      if (observed.ipv6) want("::1/128");
    }
  }

  static kj::Vector<const WantedAddress*> inOrder(const kj::Vector<WantedAddress>& addresses) {
    kj::Vector<const WantedAddress*> result;
    for (auto& address : addresses) result.add(&address);
    std::stable_sort(result.begin(), result.end(),
                     [](auto a, auto b) { return a->order < b->order; });
    return result;
  }

  // The kernel makes the first address of a network on a link its primary. The other addresses of
  // the network depend on the primary and are removed with it. If another address is to be the
  // primary, the plan removes all of networkd's addresses of this network and adds them again in
  // order.
  void makeRoom(const WantedAddress& want) {
    if (want.prefix.address.family() != AF_INET) return;
    KJ_IF_MAYBE (link, observed.link(want.link)) {
      for (auto& entry : addressesOf.of(link->index)) {
        auto& there = observed.addresses[entry.position];
        if (there.prefix != want.prefix) continue;
        bool secondary = (there.flags & IFA_F_SECONDARY) != 0;
        if (secondary || (want.order > 0 && hasElder(want))) moveNetwork(want, link->index);
        return;
      }
    }
  }

  void moveNetwork(const WantedAddress& of, unsigned link) {
    kj::Vector<size_t> network;
    bool wrong = false;
    for (auto& entry : addressesOf.of(link)) {
      size_t i = entry.position;
      auto& there = observed.addresses[i];
      if (there.prefix.masked() != of.prefix.masked()) continue;
      if (there.protocol != kMark) return;  // another program's address, which would be removed too
      network.add(i);
      if ((there.flags & IFA_F_SECONDARY) == 0) wrong = !isEldest(there.prefix, of.link);
    }
    if (!wrong) return;
    for (auto i : network) givesWay[i] = true;
  }

  bool isEldest(const Prefix& prefix, kj::StringPtr link) const {
    for (auto& want : wanted.addresses) {
      if (want.prefix == prefix && want.link == link) return !hasElder(want);
    }
    return false;
  }

  bool hasElder(const WantedAddress& want) const {
    for (auto& other : wanted.addresses) {
      if (other.order < want.order && other.link == want.link &&
          other.prefix.masked() == want.prefix.masked()) {
        return true;
      }
    }
    return false;
  }

  void planAddress(const WantedAddress& want) {
    auto what = [&] { return kj::str("address ", want.prefix, " on ", want.link); };
    KJ_IF_MAYBE (link, find(want.link, what)) {
      if (want.prefix.address.family() == AF_INET6 && !observed.ipv6) {
        problem(what(), ": IPv6 is disabled on this node");
        return;
      }
      for (auto& entry : addressesOf.of(link->index)) {
        size_t i = entry.position;
        auto& there = observed.addresses[i];
        if (there.prefix != want.prefix || givesWay[i]) continue;
        keepAddress[i] = true;
        if (duplicated(there)) {
          problem(what(), ": another host on this network has this address");
        } else {
          result.applied += want.version;
        }
        return;
      }
      Address address{
          .link = link->index, .prefix = want.prefix, .scope = want.scope, .protocol = kMark};
      addOnce(addAddresses, netlink::AddAddress{address}, what());
    }
  }

  // Returns the link of a route that does not name one.
  kj::Maybe<kj::StringPtr> linkFor(const WantedRoute& want) const {
    if (want.link.size() > 0) return kj::StringPtr(want.link);
    KJ_IF_MAYBE (gateway, want.gateway) {
      for (auto& address : wanted.addresses) {
        if (address.prefix.contains(*gateway)) return kj::StringPtr(address.link);
      }
    }
    return nullptr;
  }

  void planRoute(const WantedRoute& want) {
    if (goesNowhere(want)) return placeRoute(want, 0, "");
    KJ_IF_MAYBE (name, linkFor(want)) {
      auto what = [&] { return nameOf(want, *name); };
      KJ_IF_MAYBE (link, find(*name, what)) planRouteOn(want, *link, *name);
    } else {
      problem(nameOf(want, "no link"),
              ": set its link, or give the link an address "
              "whose prefix contains the gateway");
    }
  }

  void planRouteOn(const WantedRoute& want, const Link& link, kj::StringPtr name) {
    if (!links.willBeUp(link)) {
      problem(nameOf(want, name), ": the link is down, and no LinkSpec sets it up");
      return;
    }
    if (link.loopback() && !reachesOnLoopback(want, link)) {
      result.applied += want.version;
      if (want.destination.address.family() == AF_INET6) {
        problem(nameOf(want, name), ": the kernel accepts no IPv6 gateway on ", name, kOtherLink);
      } else if (want.onlink) {
        problem(nameOf(want, name), ": the kernel accepts no onlink gateway in a network of ", name,
                "; remove onlink");
      } else {
        problem(nameOf(want, name), ": the gateway is in no network of ", name, kOtherLink);
      }
      return;
    }
    placeRoute(want, link.index, name);
  }

  // Returns true if the kernel accepts the route's gateway on a loopback link: no gateway of IPv6,
  // and one of IPv4 in a network of the link, which is local as a whole, or with onlink in none.
  bool reachesOnLoopback(const WantedRoute& want, const Link& link) const {
    KJ_IF_MAYBE (gateway, want.gateway) {
      if (gateway->family() == AF_INET6) return false;
      if (isAddressed(link, *gateway)) return !want.onlink;
      if (want.onlink) return true;
      for (auto& route : wanted.routes) {
        if (route.link == link.name && route.gateway == nullptr &&
            route.destination.contains(*gateway)) {
          return true;
        }
      }
      return false;
    }
    return true;
  }

  // Returns true if `ip` is in the network of one of the link's addresses.
  bool isAddressed(const Link& link, const Ip& ip) const {
    for (auto& entry : addressesOf.of(link.index)) {
      if (observed.addresses[entry.position].prefix.contains(ip)) return true;
    }
    for (auto& address : wanted.addresses) {
      if (address.link == link.name && address.prefix.contains(ip)) return true;
    }
    return false;
  }

  void placeRoute(const WantedRoute& want, unsigned link, kj::StringPtr name) {
    if (want.destination.address.family() == AF_INET6 && !observed.ipv6) {
      problem(nameOf(want, name), ": IPv6 is disabled on this node");
      return;
    }
    auto route = routeOf(want, link);
    bool replace = false;
    for (auto& entry : routesTo.of(keyOf(want.destination.masked(), route.metric))) {
      size_t i = entry.position;
      auto& there = observed.routes[i];
      if (!samePlace(want, there)) continue;
      if (holds(route, there)) {
        keepRoute[i] = true;
        result.applied += want.version;
        return;
      }
      if (there.protocol == kMark && !keepRoute[i]) {
        keepRoute[i] = true;  // Not removed: the new route replaces it in one step.
        replace = true;
      } else {
        problem(nameOf(want, name), ": metric ", route.metric, " is used by another route, ",
                placeOf(there), "; set another metric");
        return;
      }
    }
    auto& list = want.gateway == nullptr ? addOnLink : addRoutes;
    addOnce(list, netlink::AddRoute{route, replace}, nameOf(want, name));
  }

  static Route routeOf(const WantedRoute& want, unsigned link) {
    Route route{.destination = want.destination.masked(),
                .gateway = want.gateway,
                .link = link,
                .metric = metricOf(want),
                .table = want.table,
                .protocol = kMark,
                .type = want.type,
                .flags = want.onlink ? uint32_t(RTNH_F_ONLINK) : 0,
                .source = want.source,
                .mtu = want.mtu};
    bool six = want.destination.address.family() == AF_INET6;
    if (want.gateway == nullptr && !six && !goesNowhere(want)) route.scope = RT_SCOPE_LINK;
    return route;
  }

  // True if both have the same key in the kernel's table; the type does not matter.
  static bool samePlace(const WantedRoute& want, const Route& there) {
    return there.table == want.table && there.destination == want.destination.masked() &&
           there.metric == metricOf(want);
  }

  // Another program's route holds if it has the requested attributes; attributes that the spec does
  // not set may differ.
  static bool holds(const Route& want, const Route& there) {
    if (there.type != want.type || there.link != want.link || there.gateway != want.gateway) {
      return false;
    }
    bool ours = there.protocol == kMark;
    auto same = [&](auto& wants, auto& has, bool asked) {
      return wants == has || (!ours && !asked);
    };
    uint32_t wantFlags = want.flags & RTNH_F_ONLINK, hasFlags = there.flags & RTNH_F_ONLINK;
    return same(want.source, there.source, want.source != nullptr) &&
           same(want.mtu, there.mtu, want.mtu != 0) && same(wantFlags, hasFlags, false);
  }

  kj::String placeOf(const Route& route) const {
    if (route.nowhere()) return kj::str("of type ", netlink::routeTypeName(route.type));
    return kj::str("on ", networkd::nameOf(observed, route.link));
  }

  // --- rules
  void planRule(const WantedRule& want) {
    auto what = kj::str("rule ", netlink::nameOfRule(want.rule));
    if (want.rule.family == AF_INET6 && !observed.ipv6) {
      // Without IPv6 no packet needs the second half of a rule for all packets.
      bool all = !want.rule.from && !want.rule.to;
      if (!all) return problem(what, ": IPv6 is disabled on this node");
      result.applied += want.version;
      return;
    }
    for (size_t i = 0; i < observed.rules.size(); ++i) {
      if (observed.rules[i] != want.rule) continue;
      keepRule[i] = true;
      result.applied += want.version;
      return;
    }
    addOnce(addRules, netlink::AddRule{want.rule}, kj::mv(what));
  }

  void removeStaleRules() {
    for (size_t i = 0; i < observed.rules.size(); ++i) {
      auto& rule = observed.rules[i];
      if (keepRule[i] || rule.protocol != kMark) continue;
      add(removeRules, netlink::DeleteRule{rule}, kj::str("rule ", netlink::nameOfRule(rule)));
    }
  }

  void removeStale() {
    for (size_t i = 0; i < observed.routes.size(); ++i) {
      auto& route = observed.routes[i];
      if (keepRoute[i] || route.protocol != kMark || links.goesAway(route.link)) continue;
      add(removeRoutes, netlink::DeleteRoute{route},
          kj::str("route ", route.destination, " ", placeOf(route), inTable(route.table)));
    }
    // Secondary addresses first: otherwise they vanish with their primary, and their removal fails.
    for (bool secondary : {true, false}) {
      for (size_t i = 0; i < observed.addresses.size(); ++i) {
        auto& address = observed.addresses[i];
        if (keepAddress[i] || address.protocol != kMark) continue;
        if (links.goesAway(address.link)) continue;
        if (((address.flags & IFA_F_SECONDARY) != 0) != secondary) continue;
        add(removeAddresses, netlink::DeleteAddress{address},
            kj::str("address ", address.prefix, " on ", networkd::nameOf(observed, address.link)));
      }
    }
  }
};

}  // namespace

void Observed::makeIndex() const {
  if (index.first == links.begin() && index.count == links.size()) return;
  index.first = links.begin();
  index.count = links.size();
  index.byName.take(links, [](const Link& link) { return keyOf(link.name); });
  index.byIndex.take(links, [](const Link& link) { return link.index; });
}

kj::Maybe<const Link&> Observed::link(kj::StringPtr name) const {
  makeIndex();
  for (auto& entry : index.byName.of(keyOf(name))) {
    if (links[entry.position].name == name) return links[entry.position];
  }
  return nullptr;
}

kj::Maybe<const Link&> Observed::link(unsigned number) const {
  makeIndex();
  for (auto& entry : index.byIndex.of(number)) return links[entry.position];
  return nullptr;
}

kj::String linkNames(const Observed& observed) {
  auto shown = observed.links.slice(0, kj::min(observed.links.size(), kMostNames));
  auto names = kj::strArray(KJ_MAP(l, shown) { return kj::str(l.name); }, ", ");
  auto more = observed.links.size() - shown.size();
  return more == 0 ? kj::mv(names) : kj::str(names, " and ", more, " more");
}

kj::String nameOf(const Observed& observed, unsigned index) {
  KJ_IF_MAYBE (link, observed.link(index)) return kj::str(link->name);
  return kj::str("link ", index);
}

Observed observe(netlink::Kernel& kernel, bool ipv6, int64_t now,
                 const std::set<uint32_t>& tables) {
  Observed observed{kernel.links(), kernel.addresses(), kernel.routes(), ipv6};
  observed.now = now;
  auto others = tables;
  for (auto& link : observed.links) {
    if (link.kind == "wireguard") {
      observed.tunnels.add(Observed::Tunnel{link.index, kernel.wireguard(link.index)});
    }
    if (link.vrfTable) others.insert(*link.vrfTable);
  }
  for (auto table : others) {
    if (table == RT_TABLE_MAIN) continue;
    for (auto& route : kernel.routesOf(table)) {
      // The table of a VRF is its local table, too.
      bool local = route.type == RTN_LOCAL || route.type == RTN_BROADCAST ||
                   route.type == RTN_ANYCAST || route.type == RTN_MULTICAST;
      if (!local) observed.routes.add(kj::mv(route));
    }
  }
  // A kernel without rules must not keep the rest of the network from being made. A wanted rule is
  // then tried, and the kernel's answer is the problem.
  (void)kj::runCatchingExceptions([&] { observed.rules = kernel.rules(); });
  return observed;
}

std::set<uint32_t> tablesOf(kj::ArrayPtr<const Route> allRoutes) {
  std::set<uint32_t> tables;
  for (auto& route : allRoutes) {
    if (route.protocol == kMark) tables.insert(route.table);
  }
  return tables;
}

void addTables(std::set<uint32_t>& tables, const Wanted& wanted) {
  for (auto& route : wanted.routes) tables.insert(route.table);
}

bool duplicated(const Address& address) {
  return (address.flags & IFA_F_DADFAILED) != 0;
}

Plan plan(const Wanted& wanted, const Observed& observed) {
  return Planner(wanted, observed).run();
}

kj::String describe(const netlink::Change& change, const Observed& observed) {
  return netlink::describe(change, [&](unsigned index) {
    KJ_IF_MAYBE (link, observed.link(index)) return kj::str(link->name);
    return netlink::indexText(index);
  });
}

kj::String linkOf(const netlink::Change& change, const Observed& observed) {
  KJ_IF_MAYBE (made, change.tryGet<netlink::AddLink>()) return kj::str(made->name);
  KJ_IF_MAYBE (link, observed.link(netlink::linkOf(change))) return kj::str(link->name);
  return kj::str();
}

}  // namespace talos::networkd
