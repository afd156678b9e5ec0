#include "networkd/plan/planned-network.h"

#include <errno.h>
#include <kj/debug.h>
#include <linux/if_addr.h>
#include <net/if.h>
#include <net/if_arp.h>

#include <algorithm>
#include <utility>

#include "common/bond/bond-options.h"
#include "networkd/plan/plan-links.h"

namespace talos::networkd {

using netlink::Address;
using netlink::BondOption;
using netlink::Link;
using netlink::Route;

namespace {

constexpr unsigned kNewLinkMtu = 1500, kNewTunnelMtu = 1420, kNewVrfMtu = 65575;
constexpr unsigned kSmallestMtu = 68, kLargestMtu = 65536;
constexpr unsigned kLargestVlan = 4094, kConnectedMetric6 = 256;

Observed copyOf(const Observed& from) {
  Observed copy;
  for (auto& link : from.links) copy.links.add(link.clone());
  copy.addresses.addAll(from.addresses);
  copy.routes.addAll(from.routes);
  copy.ipv6 = from.ipv6;
  copy.tunnels.addAll(from.tunnels);
  copy.now = from.now;
  copy.firstMtus = from.firstMtus;
  copy.tunnelPorts = from.tunnelPorts;
  copy.rules.addAll(from.rules);
  return copy;
}

template <typename T, typename F>
void removeIf(kj::Vector<T>& items, F&& which) {
  kj::Vector<T> left;
  for (auto& item : items) {
    if (!which(item)) left.add(kj::mv(item));
  }
  items = kj::mv(left);
}

bool isIpv4(const Prefix& prefix) {
  return prefix.address.family() == AF_INET;
}

bool isBond(const Link* link) {
  return link != nullptr && link->kind == "bond";
}

netlink::BondOptions newBond() {
  netlink::BondOptions options;
  for (auto& rule : netlink::bondRules()) {
    if (rule.option == BondOption::kPrimary || rule.option == BondOption::kActiveMember) continue;
    options[rule.option] = rule.standard;
  }
  return options;
}

// Sets what is given. The driver resets the options of ARP monitoring with a new mode, and when
// miimon takes over; bondDifference() sends the others again that it resets.
void setOptions(netlink::BondOptions& options, const netlink::BondOptions& given) {
  if (given[BondOption::kMode]) options[BondOption::kArpValidate] = 0;
  bool arp = options[BondOption::kArpInterval].value_or(0) != 0;
  if (arp && given[BondOption::kMiimon].value_or(0) != 0) {
    options[BondOption::kArpInterval] = 0;
    options[BondOption::kArpValidate] = 0;
  }
  for (auto& rule : netlink::bondRules()) {
    if (given[rule.option]) options[rule.option] = given[rule.option];
  }
  if (given.arpTargets) options.arpTargets = given.arpTargets;
  if (given.actorSystem) options.actorSystem = given.actorSystem;
}

Link newLink(unsigned index, kj::StringPtr name, uint32_t group) {
  Link link;
  link.index = index;
  link.name = kj::str(name);
  link.type = ARPHRD_ETHER;
  link.mtu = kNewLinkMtu;
  link.group = group;
  // Only the kernel knows the address. This one differs from those of the other links.
  link.hardwareAddress =
      kj::heapArray<kj::byte>({0x52, 0x54, 0, 0, kj::byte(link.index >> 8), kj::byte(link.index)});
  return link;
}

// Returns the table of the routes to the networks of a link.
uint32_t tableOf(const Observed& network, unsigned index) {
  unsigned master = 0;
  for (auto& link : network.links) {
    if (link.index != index) continue;
    if (link.vrfTable) return *link.vrfTable;
    master = link.master;
  }
  for (auto& link : network.links) {
    if (link.index == master && link.vrfTable) return *link.vrfTable;
  }
  return RT_TABLE_MAIN;
}

bool isReachable(const Observed& network, unsigned link, const Ip& gateway) {
  return std::any_of(network.routes.begin(), network.routes.end(), [&](auto& r) {
    return r.link == link && r.gateway == nullptr && r.destination.contains(gateway);
  });
}

// `link`: 0 for any link; `table`: of a route that needs the address, 0 for none. A route can have
// an address of a VRF only in the table of the VRF.
bool has(const Observed& network, const Ip& address, unsigned link, uint32_t table) {
  return std::any_of(network.addresses.begin(), network.addresses.end(), [&](auto& a) {
    if (a.prefix.address != address || (link != 0 && a.link != link)) return false;
    auto own = tableOf(network, a.link);
    return table == RT_TABLE_UNSPEC || own == RT_TABLE_MAIN || own == table;
  });
}

}  // namespace

PlannedNetwork::PlannedNetwork(const Observed& before) : network(copyOf(before)) {
  for (auto& link : network.links) nextIndex = kj::max(nextIndex, link.index + 1);
}

Observed PlannedNetwork::state() const {
  return copyOf(network);
}

kj::Maybe<netlink::Failure> PlannedNetwork::apply(const netlink::Change& change) {
  auto answer = make(change);
  return netlink::failureOf(change, answer.code, answer.explanation);
}

PlannedNetwork::Answer PlannedNetwork::make(const netlink::Change& change) {
  KJ_SWITCH_ONEOF(change) {
    KJ_CASE_ONEOF(c, netlink::SetLink) {
      return set(c);
    }
    KJ_CASE_ONEOF(c, netlink::AddLink) {
      return add(c);
    }
    KJ_CASE_ONEOF(c, netlink::SetBond) {
      return set(c);
    }
    KJ_CASE_ONEOF(c, netlink::SetBridge) {
      return set(c);
    }
    KJ_CASE_ONEOF(c, netlink::SetWireguard) {
      return set(c);
    }
    KJ_CASE_ONEOF(c, netlink::DeleteLink) {
      removeLink(c.index);
      return {};
    }
    KJ_CASE_ONEOF(c, netlink::RenameLink) {
      KJ_FAIL_ASSERT("no plan renames a link", c.name);
    }
    KJ_CASE_ONEOF(c, netlink::AddAddress) {
      return add(c.address);
    }
    KJ_CASE_ONEOF(c, netlink::DeleteAddress) {
      return remove(c.address);
    }
    KJ_CASE_ONEOF(c, netlink::AddRoute) {
      return add(c.route, c.replace);
    }
    KJ_CASE_ONEOF(c, netlink::DeleteRoute) {
      return remove(c.route);
    }
    KJ_CASE_ONEOF(c, netlink::AddRule) {
      network.rules.add(c.rule);
      return {};
    }
    KJ_CASE_ONEOF(c, netlink::DeleteRule) {
      removeIf(network.rules, [&](auto& rule) { return rule == c.rule; });
      return {};
    }
  }
  KJ_UNREACHABLE;
}

Link* PlannedNetwork::find(unsigned index) {
  for (auto& link : network.links) {
    if (link.index == index) return &link;
  }
  return nullptr;
}

// --- links

PlannedNetwork::Answer PlannedNetwork::set(const netlink::SetLink& set) {
  auto link = find(set.index);
  if (link == nullptr) return {ENODEV};
  if (set.hardwareAddress) {
    auto& address = *set.hardwareAddress;
    link->hardwareAddress = kj::heapArray(kj::arrayPtr(address.data(), address.size()));
  }
  KJ_IF_MAYBE (mtu, set.mtu) {
    if (int code = setMtu(*link, *mtu)) return {code};
  }
  KJ_IF_MAYBE (master, set.master) {
    if (int code = setMaster(*link, *master)) return {code};
  }
  KJ_IF_MAYBE (up, set.up) {
    if (int code = setUp(*link, *up)) return {code};
  }
  return {};
}

int PlannedNetwork::setMtu(Link& link, unsigned mtu) {
  if (mtu < kSmallestMtu || mtu > kLargestMtu) return EINVAL;
  auto parent = find(link.parent);
  if (link.kind == "vlan" && parent != nullptr && mtu > parent->mtu) return ERANGE;
  link.mtu = mtu;
  if (link.kind == "bridge") fixedMtus.insert(link.index);
  followPorts(link.master);
  for (auto& other : network.links) {
    if (isBond(&link) && other.master == link.index) setMtu(other, mtu);
    // A VLAN shrinks with its parent.
    if (other.kind == "vlan" && other.parent == link.index && other.mtu > mtu) setMtu(other, mtu);
  }
  return 0;
}

// Gives a bridge the smallest MTU of its ports, unless a step has set another.
void PlannedNetwork::followPorts(unsigned index) {
  auto bridge = find(index);
  if (bridge == nullptr || bridge->kind != "bridge" || fixedMtus.contains(index)) return;
  unsigned least = 0;
  for (auto& port : network.links) {
    if (port.master == index && (least == 0 || port.mtu < least)) least = port.mtu;
  }
  bridge->mtu = least == 0 ? kNewLinkMtu : least;
}

int PlannedNetwork::setUp(Link& link, bool up) {
  if (up == link.up()) return 0;
  if (up && link.kind == "vlan") {
    auto parent = find(link.parent);
    if (parent == nullptr || !parent->up()) return ENETDOWN;
  }
  if (up) {
    goUp(link);
  } else {
    goDown(link);
  }
  for (auto& other : network.links) {
    if (other.kind == "vlan" && other.parent == link.index) setUp(other, up);
  }
  return 0;
}

void PlannedNetwork::goUp(Link& link) {
  link.flags |= IFF_UP;
  bool any4 = false;
  for (auto& address : network.addresses) {
    if (address.link != link.index || !isIpv4(address.prefix)) continue;
    any4 = true;
    addConnected(address);
  }
  auto automatic = [&](kj::StringPtr prefix, uint8_t scope) {
    Address address{
        .link = link.index, .prefix = KJ_ASSERT_NONNULL(Prefix::parse(prefix)), .scope = scope};
    network.addresses.add(address);
    addConnected(address);
  };
  if (link.loopback()) {
    if (!any4) automatic("127.0.0.1/8", RT_SCOPE_HOST);
    if (network.ipv6) automatic("::1/128", RT_SCOPE_HOST);
  } else if (network.ipv6 && link.type == ARPHRD_ETHER && link.kind != "vrf" &&
             !isBond(find(link.master))) {
    automatic(kj::str("fe80::5054:ff:fe00:", kj::hex(uint16_t(link.index)), "/64"), RT_SCOPE_LINK);
  }
}

void PlannedNetwork::goDown(Link& link) {
  link.flags &= ~IFF_UP;
  removeIf(network.addresses, [&](auto& a) { return a.link == link.index && !isIpv4(a.prefix); });
  removeIf(network.routes, [&](auto& r) { return r.link == link.index; });
  dropSources();
}

int PlannedNetwork::setMaster(Link& link, unsigned master) {
  if (link.master == master) return 0;
  if (link.master != 0) release(link);
  return master == 0 ? 0 : join(link, master);
}

// Takes a link that is up down and up again, as it does when it enters or leaves a VRF.
void PlannedNetwork::cycle(Link& link) {
  if (!link.up()) return;
  setUp(link, false);
  setUp(link, true);
}

void PlannedNetwork::release(Link& member) {
  unsigned from = member.master;
  member.master = 0;
  followPorts(from);
  auto bond = find(from);
  if (bond != nullptr && bond->kind == "vrf") cycle(member);
  if (!isBond(bond)) return;
  setUp(member, false);  // the bond closes it
  if (!bond->bond) return;
  auto& primary = (*bond->bond)[BondOption::kPrimary];
  if (primary == member.index) primary.reset();
}

int PlannedNetwork::join(Link& member, unsigned index) {
  auto master = find(index);
  if (master == nullptr || member.loopback()) return EINVAL;
  if (master->kind == "bridge") {
    if (member.kind == "bridge") return ELOOP;
    member.master = index;
    followPorts(index);
    return 0;
  }
  if (master->kind == "vrf") {
    if (member.kind == "vrf") return EINVAL;
    member.master = index;
    cycle(member);
    return 0;
  }
  if (!isBond(master)) return EOPNOTSUPP;
  if (member.type != ARPHRD_ETHER) return EINVAL;
  setMtu(member, master->mtu);
  member.master = index;
  setUp(member, true);  // the bond opens it
  return 0;
}

PlannedNetwork::Answer PlannedNetwork::set(const netlink::SetBond& set) {
  auto link = find(set.index);
  if (link == nullptr) return {ENODEV};
  if (!link->bond) link->bond.emplace();
  setOptions(*link->bond, set.options);
  return {};
}

PlannedNetwork::Answer PlannedNetwork::set(const netlink::SetBridge& set) {
  auto link = find(set.index);
  if (link == nullptr) return {ENODEV};
  if (!link->bridge) link->bridge.emplace();
  auto& options = *link->bridge;
  if (set.options.stp) options.stp = set.options.stp;
  if (set.options.vlanFiltering) options.vlanFiltering = set.options.vlanFiltering;
  return {};
}

PlannedNetwork::Answer PlannedNetwork::set(const netlink::SetWireguard& set) {
  auto tunnel = std::find_if(network.tunnels.begin(), network.tunnels.end(),
                             [&](auto& t) { return t.link == set.index; });
  if (tunnel == network.tunnels.end()) return {ENODEV};
  applyTo(tunnel->device, set);
  return {};
}

PlannedNetwork::Answer PlannedNetwork::add(const netlink::AddLink& add) {
  for (auto& other : network.links) {
    if (other.name == add.name) return {EEXIST};
  }
  if (add.mtu != 0 && (add.mtu < kSmallestMtu || add.mtu > kLargestMtu)) return {EINVAL};
  auto link = newLink(nextIndex++, add.name, add.group);
  KJ_SWITCH_ONEOF(add.kind) {
    KJ_CASE_ONEOF(k, netlink::Bridge) {
      link.kind = kj::str("bridge");
      link.bridge = netlink::BridgeOptions{k.options.stp.value_or(false),
                                           k.options.vlanFiltering.value_or(false)};
      if (add.mtu != 0) fixedMtus.insert(link.index);
    }
    KJ_CASE_ONEOF(k, netlink::Dummy) {
      link.kind = kj::str("dummy");
    }
    KJ_CASE_ONEOF(k, netlink::Vlan) {
      if (int code = putOnParent(link, k)) return {code};
    }
    KJ_CASE_ONEOF(k, netlink::Bond) {
      link.kind = kj::str("bond");
      link.bond = newBond();
      setOptions(*link.bond, k.options);
    }
    KJ_CASE_ONEOF(k, netlink::Wireguard) {
      link.kind = kj::str("wireguard");
      link.type = ARPHRD_NONE;
      link.mtu = kNewTunnelMtu;
      link.hardwareAddress = nullptr;
      network.tunnels.add(Observed::Tunnel{link.index, {}});
    }
    KJ_CASE_ONEOF(k, netlink::Vrf) {
      link.kind = kj::str("vrf");
      link.mtu = kNewVrfMtu;
      link.vrfTable = k.table;
    }
    KJ_CASE_ONEOF(k, netlink::Veth) {
      link.kind = kj::str("veth");
      if (int code = addPeer(link, k)) return {code};
    }
  }
  if (add.mtu != 0) link.mtu = add.mtu;
  network.links.add(kj::mv(link));
  return {};
}

// Adds the other end of a new pair.
int PlannedNetwork::addPeer(Link& link, const netlink::Veth& veth) {
  for (auto& other : network.links) {
    if (other.name == veth.peer) return EEXIST;
  }
  auto peer = newLink(nextIndex++, veth.peer, link.group);
  peer.kind = kj::str("veth");
  peer.parent = link.index;
  link.parent = peer.index;
  network.links.add(kj::mv(peer));
  return 0;
}

int PlannedNetwork::putOnParent(Link& link, const netlink::Vlan& vlan) {
  auto parent = find(vlan.parent);
  if (parent == nullptr) return ENODEV;
  if (vlan.id > kLargestVlan) return ERANGE;
  if (parent->loopback()) return EOPNOTSUPP;
  netlink::VlanTag tag{vlan.id, vlan.protocol};
  for (auto& other : network.links) {
    if (other.parent == vlan.parent && other.vlan == tag) return EEXIST;
  }
  link.kind = kj::str("vlan");
  link.parent = vlan.parent;
  link.vlan = tag;
  link.mtu = parent->mtu;
  return 0;
}

// Removes the link, the other end of its pair and the VLANs on them, and releases its members.
void PlannedNetwork::removeLink(unsigned index) {
  auto end = find(index);
  if (end != nullptr && end->kind == "veth") {
    unsigned peer = std::exchange(end->parent, 0u);
    auto other = find(peer);
    if (other != nullptr && other->kind == "veth" && other->parent == index) removeLink(peer);
  }
  kj::Vector<unsigned> vlans;
  for (auto& other : network.links) {
    if (other.kind == "vlan" && other.parent == index) vlans.add(other.index);
  }
  for (auto vlan : vlans) removeLink(vlan);
  for (auto& other : network.links) {
    if (other.master == index || (other.index == index && other.master != 0)) release(other);
  }
  removeIf(network.addresses, [&](auto& a) { return a.link == index; });
  removeIf(network.routes, [&](auto& r) { return r.link == index; });
  removeIf(network.tunnels, [&](auto& t) { return t.link == index; });
  removeIf(network.links, [&](auto& l) { return l.index == index; });
  dropSources();
}

// --- addresses

PlannedNetwork::Answer PlannedNetwork::add(Address address) {
  auto link = find(address.link);
  if (link == nullptr) return {ENODEV};
  bool v4 = isIpv4(address.prefix);
  for (auto& other : network.addresses) {
    if (other.link != address.link) continue;
    // IPv6 keeps an address only once on a link, whatever its prefix length.
    bool same =
        v4 ? other.prefix == address.prefix : other.prefix.address == address.prefix.address;
    if (same) return {EEXIST};
    if (v4 && other.prefix.masked() == address.prefix.masked()) address.flags |= IFA_F_SECONDARY;
  }
  network.addresses.add(address);
  if (link->up() || !v4) addConnected(address);
  return {};
}

PlannedNetwork::Answer PlannedNetwork::remove(const Address& address) {
  auto& all = network.addresses;
  auto found = std::find_if(all.begin(), all.end(), [&](auto& a) {
    return a.link == address.link && a.prefix == address.prefix;
  });
  if (found == all.end()) return {EADDRNOTAVAIL};
  Address gone = *found;
  bool v4 = isIpv4(gone.prefix);
  bool primary = v4 && (gone.flags & IFA_F_SECONDARY) == 0;
  removeIf(all, [&](auto& a) {  // its secondaries go with it
    return a.link == gone.link &&
           (a.prefix == gone.prefix || (primary && a.prefix.masked() == gone.prefix.masked()));
  });
  bool last = std::none_of(all.begin(), all.end(),
                           [&](auto& a) { return a.link == gone.link && isIpv4(a.prefix); });
  if (v4 && last) {
    removeIf(network.routes, [&](auto& r) { return r.link == gone.link && isIpv4(r.destination); });
  }
  dropConnected(gone);
  dropSources();
  return {};
}

void PlannedNetwork::addConnected(const Address& address) {
  bool v4 = isIpv4(address.prefix);
  if ((address.flags & IFA_F_NOPREFIXROUTE) != 0) return;
  if (v4 && address.prefix.length == address.prefix.address.bits()) return;
  bool main = tableOf(network, address.link) == RT_TABLE_MAIN;
  if (address.scope == RT_SCOPE_HOST && main) return;  // its route is in the local table
  Route route{.destination = address.prefix.masked(),
              .link = address.link,
              .metric = v4 ? 0 : kConnectedMetric6,
              .table = tableOf(network, address.link),
              .protocol = RTPROT_KERNEL};
  if (v4) route.source = address.prefix.address;
  for (auto& other : network.routes) {
    if (other.destination == route.destination && other.link == route.link &&
        other.protocol == RTPROT_KERNEL) {
      return;
    }
  }
  network.routes.add(route);
}

void PlannedNetwork::dropConnected(const Address& address) {
  auto destination = address.prefix.masked();
  for (auto& other : network.addresses) {
    if (other.link == address.link && other.prefix.masked() == destination) return;
  }
  removeIf(network.routes, [&](auto& r) {
    return r.link == address.link && r.destination == destination && r.protocol == RTPROT_KERNEL;
  });
}

// --- routes

PlannedNetwork::Answer PlannedNetwork::add(const Route& route, bool replace) {
  auto answer = route.nowhere() ? Answer{} : checkHop(route);
  if (answer.code != 0) return answer;
  for (auto& other : network.routes) {
    if (other.table != route.table || other.destination != route.destination ||
        other.metric != route.metric) {
      continue;
    }
    if (!replace) return {EEXIST};
    other = route;
    return {};
  }
  network.routes.add(route);
  return {};
}

PlannedNetwork::Answer PlannedNetwork::checkHop(const Route& route) {
  auto link = find(route.link);
  if (link == nullptr) return {ENODEV};
  bool v4 = isIpv4(route.destination);
  KJ_IF_MAYBE (gateway, route.gateway) {
    if ((route.flags & RTNH_F_ONLINK) == 0 && !isReachable(network, route.link, *gateway)) {
      return {v4 ? ENETUNREACH : EHOSTUNREACH, "Nexthop has invalid gateway"_kj};
    }
  }
  if (!link->up()) return {ENETDOWN, "Device for nexthop is not up"_kj};
  KJ_IF_MAYBE (source, route.source) {
    if (!has(network, *source, v4 ? 0 : route.link, v4 ? route.table : RT_TABLE_UNSPEC)) {
      return {EINVAL, v4 ? "Invalid prefsrc address"_kj : "Invalid source address"_kj};
    }
  }
  return {};
}

PlannedNetwork::Answer PlannedNetwork::remove(const Route& route) {
  auto before = network.routes.size();
  removeIf(network.routes, [&](auto& r) {
    return r.table == route.table && r.destination == route.destination &&
           r.metric == route.metric && r.link == route.link && r.gateway == route.gateway;
  });
  return {network.routes.size() < before ? 0 : ESRCH};
}

// Routes whose source address was removed: IPv4 removes them, IPv6 only their source.
void PlannedNetwork::dropSources() {
  removeIf(network.routes, [&](auto& route) {
    KJ_IF_MAYBE (source, route.source) {
      if (has(network, *source, 0, RT_TABLE_UNSPEC)) return false;
      if (isIpv4(route.destination)) return route.protocol != RTPROT_KERNEL;
      route.source = nullptr;
    }
    return false;
  });
}

}  // namespace talos::networkd
