#include "common/netlink/model/netlink-model.h"

#include <errno.h>
#include <kj/debug.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>

#include <algorithm>
#include <tuple>

#include <linux/if.h>  // after net/if.h, which it then completes

#include "common/netlink/model/netlink-model-lists.h"

namespace talos::netlink {

namespace {

constexpr unsigned kDefaultMetric6 = 1024, kConnectedMetric6 = 256;

int nowhereFits(const Route& wanted, kj::String& message) {
  if (!is4(wanted.destination) || (wanted.gateway == nullptr && wanted.link == 0)) return 0;
  message = kj::str("Gateway, device and multipath can not be specified for this route type");
  return EINVAL;
}

}  // namespace

ModelKernel::ModelKernel(const kj::Vector<Link>& links, const kj::Vector<Address>& addresses,
                         const kj::Vector<Route>& routes, bool ipv6)
    : ipv6(ipv6) {
  for (auto& link : links) {
    Device device;
    device.link = link.clone();
    device.ownMtu = link.mtu;
    device.addressChosen = link.kind == "bridge";  // as networkd does; the kernel does not say
    nextIndex = kj::max(nextIndex, link.index + 1);
    devices.add(kj::mv(device));
  }
  addressList.addAll(addresses);
  routeList.addAll(routes);
}

void ModelKernel::have(unsigned index, const WireguardDevice& device) {
  KJ_ASSERT_NONNULL(this->device(index)).wireguard = device;
}

kj::Vector<Link> ModelKernel::links() {
  kj::Vector<Link> result;
  for (auto& device : devices) result.add(device.link.clone());
  return result;
}

kj::Vector<Address> ModelKernel::addresses() {
  kj::Vector<Address> result;
  result.addAll(addressList);
  return result;
}

kj::Vector<Route> ModelKernel::routes() {
  return routesOf(RT_TABLE_MAIN);
}

kj::Vector<Route> ModelKernel::routesOf(uint32_t table) {
  kj::Vector<Route> result;
  for (auto& route : routeList) {
    if (route.table == table) result.add(route);
  }
  return result;
}

kj::Vector<Rule> ModelKernel::rules() {
  kj::Vector<Rule> result;
  for (auto& rule : ruleList.list()) result.add(rule);
  return result;
}

kj::Vector<Route> ModelKernel::allRoutes() {
  kj::Vector<Route> result;
  result.addAll(routeList);
  for (auto& address : addressList) {  // packets to this address are for this machine
    result.add(Route{.destination = Prefix::host(address.prefix.address),
                     .link = address.link,
                     .table = RT_TABLE_LOCAL,
                     .protocol = RTPROT_KERNEL,
                     .scope = RT_SCOPE_HOST,
                     .type = RTN_LOCAL});
  }
  return result;
}

kj::Vector<kj::Maybe<Failure>> ModelKernel::apply(kj::ArrayPtr<const Change> changes) {
  kj::Vector<kj::Maybe<Failure>> result;
  for (auto& change : changes) {
    kj::String message;
    int code = applyOne(change, message);
    result.add(failureOf(change, code, message));
  }
  return result;
}

int ModelKernel::applyOne(const Change& change, kj::String& message) {
  KJ_SWITCH_ONEOF(change) {
    KJ_CASE_ONEOF(c, SetLink) {
      return set(c, message);
    }
    KJ_CASE_ONEOF(c, AddLink) {
      return add(c, message);
    }
    KJ_CASE_ONEOF(c, SetBond) {
      return set(c, message);
    }
    KJ_CASE_ONEOF(c, SetBridge) {
      return set(c);
    }
    KJ_CASE_ONEOF(c, SetWireguard) {
      return set(c);
    }
    KJ_CASE_ONEOF(c, DeleteLink) {
      if (device(c.index) == nullptr) return ENODEV;
      if (device(c.index)->link.kind.size() == 0) return EOPNOTSUPP;
      unplug(c.index);
      return 0;
    }
    KJ_CASE_ONEOF(c, RenameLink) {
      return rename(c);
    }
    KJ_CASE_ONEOF(c, AddAddress) {
      return add(c.address, c.replace, c.lifetime.has_value());
    }
    KJ_CASE_ONEOF(c, DeleteAddress) {
      return remove(c.address);
    }
    KJ_CASE_ONEOF(c, AddRoute) {
      return add(c.route, c.replace, message);
    }
    KJ_CASE_ONEOF(c, DeleteRoute) {
      return remove(c.route);
    }
    KJ_CASE_ONEOF(c, AddRule) {
      if (c.rule.family == AF_INET6 && !ipv6) return EAFNOSUPPORT;
      KJ_DEFER(notify({.rules = true}));
      return ruleList.add(c.rule);
    }
    KJ_CASE_ONEOF(c, DeleteRule) {
      KJ_DEFER(notify({.rules = true}));
      return ruleList.remove(c.rule);
    }
  }
  KJ_UNREACHABLE;
}

ModelKernel::Device* ModelKernel::device(unsigned index) {
  for (auto& device : devices) {
    if (device.link.index == index) return &device;
  }
  return nullptr;
}

// --- addresses

void ModelKernel::addConnected(const Address& address) {
  bool v4 = is4(address.prefix);
  if ((address.flags & IFA_F_NOPREFIXROUTE) != 0) return;
  if (v4 && address.prefix.length == address.prefix.address.bits()) return;
  Route route{.destination = address.prefix.masked(),
              .link = address.link,
              .metric = v4 ? 0 : kConnectedMetric6,
              .table = tableOf(devices, address.link),
              .protocol = RTPROT_KERNEL,
              .scope = uint8_t(v4 ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE)};
  if (address.scope == RT_SCOPE_HOST && route.table == RT_TABLE_MAIN) route.table = RT_TABLE_LOCAL;
  if (v4) route.source = address.prefix.address;
  for (auto& other : routeList) {
    if (other.destination == route.destination && other.link == route.link &&
        other.protocol == RTPROT_KERNEL) {
      return;
    }
  }
  routeList.add(route);
}

void ModelKernel::dropConnected(const Address& address) {
  auto destination = address.prefix.masked();
  for (auto& other : addressList) {
    if (other.link == address.link && other.prefix.masked() == destination) return;
  }
  removeIf(routeList, [&](auto& r) {
    return r.link == address.link && r.destination == destination && r.protocol == RTPROT_KERNEL;
  });
}

int ModelKernel::add(Address address, bool replace, bool ends) {
  auto found = device(address.link);
  if (found == nullptr) return ENODEV;
  bool v4 = is4(address.prefix);
  if (!v4 && !ipv6) return EOPNOTSUPP;
  for (auto& other : addressList) {
    if (other.link != address.link) continue;
    if (other.prefix == address.prefix) return replace ? 0 : EEXIST;
    // IPv6 keeps an address only once on a link, whatever its prefix length.
    if (!v4 && other.prefix.address == address.prefix.address) return EEXIST;
    if (v4 && other.prefix.masked() == address.prefix.masked()) address.flags |= IFA_F_SECONDARY;
  }
  address.flags |= ends ? IFA_F_DEPRECATED : IFA_F_PERMANENT;
  addressList.add(address);
  if (found->link.up() || !v4) addConnected(address);
  notify({.addresses = true, .routes = true});
  return 0;
}

int ModelKernel::remove(const Address& address) {
  kj::Maybe<Address> gone;
  removeIf(addressList, [&](auto& a) {
    if (gone != nullptr || a.link != address.link || a.prefix != address.prefix) return false;
    gone = a;
    return true;
  });
  KJ_IF_MAYBE (old, gone) {
    if (is4(old->prefix)) {
      if ((old->flags & IFA_F_SECONDARY) == 0) {
        removeIf(addressList, [&](auto& a) {  // its secondaries go with it
          return a.link == old->link && a.prefix.masked() == old->prefix.masked();
        });
      }
      bool last = true;
      for (auto& a : addressList) last = last && (a.link != old->link || !is4(a.prefix));
      if (last) {
        removeIf(routeList, [&](auto& r) { return r.link == old->link && is4(r.destination); });
      }
    }
    dropConnected(*old);
    dropSources();
    notify({.addresses = true, .routes = true});
    return 0;
  }
  return EADDRNOTAVAIL;
}

// --- routes

bool ModelKernel::reachable(unsigned link, const Ip& gateway) const {
  for (auto& route : routeList) {
    if (route.link == link && route.gateway == nullptr && route.destination.contains(gateway)) {
      return true;
    }
  }
  return false;
}

int ModelKernel::add(const Route& wanted, bool replace, kj::String& message) {
  bool v4 = is4(wanted.destination);
  if (!v4 && !ipv6) return EOPNOTSUPP;
  int code = wanted.nowhere() ? nowhereFits(wanted, message) : hopFits(wanted, message);
  if (code != 0) return code;
  Route route = wanted;
  if (!v4 && route.metric == 0) route.metric = kDefaultMetric6;
  for (auto& other : routeList) {
    if (other.table == route.table && other.destination == route.destination &&
        other.metric == route.metric) {
      if (!replace) return EEXIST;
      other = route;
      notify({.routes = true});
      return 0;
    }
  }
  routeList.add(route);
  notify({.routes = true});
  return 0;
}

int ModelKernel::hopFits(const Route& wanted, kj::String& message) {
  auto found = device(wanted.link);
  if (found == nullptr) return ENODEV;
  bool v4 = is4(wanted.destination);
  KJ_IF_MAYBE (gateway, wanted.gateway) {
    if ((wanted.flags & RTNH_F_ONLINK) == 0 && !reachable(wanted.link, *gateway)) {
      message = kj::str("Nexthop has invalid gateway");
      return v4 ? ENETUNREACH : EHOSTUNREACH;
    }
  }
  if (!found->link.up()) {
    message = kj::str("Device for nexthop is not up");
    return ENETDOWN;
  }
  KJ_IF_MAYBE (source, wanted.source) {
    if (!has(*source, v4 ? 0 : wanted.link, v4 ? wanted.table : uint32_t(RT_TABLE_UNSPEC))) {
      message = kj::str(v4 ? "Invalid prefsrc address" : "Invalid source address");
      return EINVAL;
    }
  }
  return 0;
}

bool ModelKernel::has(const Ip& address, unsigned link, uint32_t table) const {
  for (auto& there : addressList) {
    if (there.prefix.address != address || (link != 0 && there.link != link)) continue;
    auto own = tableOf(devices, there.link);
    if (table == RT_TABLE_UNSPEC || own == RT_TABLE_MAIN || own == table) return true;
  }
  return false;
}

// Routes whose source address was removed: IPv4 removes them, IPv6 only their source.
void ModelKernel::dropSources() {
  removeIf(routeList, [&](auto& route) {
    KJ_IF_MAYBE (source, route.source) {
      if (has(*source, 0)) return false;
      if (is4(route.destination)) return route.protocol != RTPROT_KERNEL;
      route.source = nullptr;
    }
    return false;
  });
}

int ModelKernel::remove(const Route& route) {
  bool done = false;
  removeIf(routeList, [&](auto& r) {
    if (done || r.table != route.table || r.destination != route.destination ||
        r.metric != route.metric || r.link != route.link || r.gateway != route.gateway) {
      return false;
    }
    return done = true;
  });
  if (done) notify({.routes = true});
  return done ? 0 : ESRCH;
}

// --- rules

void ModelRules::put(Rule rule) {
  auto before = [](auto& a, auto& b) {
    return std::tie(a.family, a.priority) < std::tie(b.family, b.priority);
  };
  rules.insert(std::upper_bound(rules.begin(), rules.end(), rule, before), rule);
}

int ModelRules::add(const Rule& rule) {
  if (std::find(rules.begin(), rules.end(), rule) != rules.end()) return EEXIST;
  put(rule);
  return 0;
}

int ModelRules::remove(const Rule& rule) {
  auto fits = [](const auto& given, const auto& there, bool asked) {
    return !asked || given == there;
  };
  for (auto i = rules.begin(); i != rules.end(); ++i) {
    bool same =
        i->family == rule.family && i->priority == rule.priority && i->action == rule.action &&
        fits(rule.table, i->table, rule.table != 0) &&
        fits(rule.from, i->from, rule.from.has_value()) &&
        fits(rule.to, i->to, rule.to.has_value()) && fits(rule.mark, i->mark, rule.mark != 0) &&
        fits(rule.mask, i->mask, rule.mask != 0) && fits(rule.iif, i->iif, !rule.iif.empty()) &&
        fits(rule.oif, i->oif, !rule.oif.empty()) &&
        fits(rule.protocol, i->protocol, rule.protocol != 0);
    if (!same) continue;
    rules.erase(i);
    return 0;
  }
  return ENOENT;
}

}  // namespace talos::netlink
