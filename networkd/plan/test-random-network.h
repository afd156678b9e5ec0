// Random networks of possible configs, and a text of such a network in a kernel: for the tests of
// the planner on the model kernel and on the real one.
#pragma once

#include <kj/encoding.h>
#include <net/if.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "common/bond/bond-options.h"
#include "networkd/plan/plan-links.h"

namespace talos::networkd {

class RandomNetwork {
 public:
  explicit RandomNetwork(unsigned seed) : random(seed) {}

  // Makes a network on the hardware links eth0 ... eth<hardware - 1>.
  Wanted make(unsigned hardware) {
    Wanted wanted;
    std::vector<std::string> free,
        addressable;  // unused hardware; links that can have addresses
    for (unsigned i = 0; i < hardware; ++i) {
      if (chance(85)) free.push_back("eth" + std::to_string(i));
    }
    std::shuffle(free.begin(), free.end(), random);
    for (auto name : {"bond0", "bond1"}) {
      if (!chance(60)) continue;
      auto members = take(free, below(4));
      wanted.links.add(bond(name, members));
      for (auto& member : members) {
        auto& link = wanted.links.add(plain(member));
        link.master = kj::str(name);
      }
      addressable.push_back(name);
    }
    if (chance(40)) {
      auto& bridge = wanted.links.add(plain("br0"));
      bridge.kind = kj::str("bridge");
      bridge.bridge = {chance(50), chance(50)};
      for (auto& port : take(free, below(3))) {
        auto& link = wanted.links.add(plain(port));
        link.master = kj::str("br0");
        if (port == "eth0") link.mtu = mtu();
      }
      addressable.push_back("br0");
    }
    addVrf(wanted, free);
    addPair(wanted, addressable);
    for (auto& name : free) {
      auto& link = wanted.links.add(plain(name));
      if (inVrf.contains(name)) link.master = kj::str("vrf0");
      // eth0 always gets an MTU and the others never: an MTU without a spec stays as it was.
      if (name == "eth0") link.mtu = mtu();
      addressable.push_back(name);
    }
    if (chance(40)) {
      // The next config may use this name for another kind.
      auto& link = wanted.links.add(plain("extra0"));
      link.kind = chance(50) ? kj::str("dummy") : kj::str("bridge");
      if (chance(30)) link.mtu = mtu();
      addressable.push_back("extra0");
    }
    if (chance(50)) {
      wanted.links.add(tunnel("wg0"));
      addressable.push_back("wg0");
    }
    addVlans(wanted, addressable);
    addAddresses(wanted, addressable);
    addRules(wanted);
    std::shuffle(wanted.links.begin(), wanted.links.end(), random);
    for (auto& link : wanted.links) link.version = 1;
    return wanted;
  }

  // Returns the tables that routes of such networks are in, beside the main one.
  static std::set<uint32_t> tables() { return {70, 71}; }

  static netlink::WireguardSecret secret(kj::byte number) {
    kj::byte bytes[32] = {8, number};
    return KJ_ASSERT_NONNULL(netlink::WireguardSecret::parse(kj::encodeBase64(bytes)));
  }

 private:
  std::minstd_rand random;
  std::set<std::string> inVrf;  // links of the network at hand
  uint32_t table = 0;           // of its VRF

  unsigned below(unsigned limit) { return random() / 7 % limit; }
  bool chance(unsigned percent) { return below(100) < percent; }
  unsigned mtu() { return 1400 + 100 * below(4); }

  static WantedLink plain(const std::string& name) {
    WantedLink link;
    link.name = kj::str(name.c_str());
    return link;
  }

  std::vector<std::string> take(std::vector<std::string>& from, unsigned count) {
    std::vector<std::string> taken;
    while (taken.size() < count && !from.empty()) {
      taken.push_back(from.back());
      from.pop_back();
    }
    return taken;
  }

  WantedLink bond(const std::string& name, const std::vector<std::string>& members) {
    using O = netlink::BondOption;
    auto link = plain(name);
    link.kind = kj::str("bond");
    if (chance(30)) link.mtu = mtu();
    link.bond[O::kMode] = below(netlink::kBondModes);
    // Includes options without a meaning in the mode: they must do no harm.
    for (auto& rule : netlink::bondRules()) {
      if (!choosable(rule.option) || !chance(20)) continue;
      uint32_t most = std::min<uint32_t>(rule.most, 1000);
      if (rule.option == O::kArpValidate) most = 3;
      if (rule.option == O::kXmitHashPolicy) most = 4;
      link.bond[rule.option] = rule.least + below(most - rule.least + 1);
    }
    if (chance(50)) link.bond[O::kMiimon] = 100 * (1 + below(3));
    if (chance(20)) {
      link.bond[O::kMiimon].reset();
      link.bond[O::kArpInterval] = 500;
      link.bond.arpTargets = {KJ_ASSERT_NONNULL(Ip::parse("10.99.0.1"))};
      if (chance(50)) link.bond.arpTargets->push_back(KJ_ASSERT_NONNULL(Ip::parse("10.99.0.2")));
    }
    if (chance(20)) link.bond.actorSystem = netlink::Mac{2, 0, 0, 0, 0, kj::byte(below(3))};
    if (!members.empty() && chance(50))
      link.primary = kj::str(members[below(members.size())].c_str());
    return link;
  }

  static bool choosable(netlink::BondOption option) {
    using O = netlink::BondOption;
    // Options that name links are chosen elsewhere; newer kernels offer no choice of useCarrier,
    // and older kernels do not know the last three.
    for (auto not_ : {O::kMode, O::kPrimary, O::kActiveMember, O::kUseCarrier, O::kLacpActive,
                      O::kMissedMax, O::kCoupledControl}) {
      if (option == not_) return false;
    }
    return true;
  }

  // Some of the hardware is in the VRF.
  void addVrf(Wanted& wanted, const std::vector<std::string>& hardware) {
    inVrf.clear();
    table = 70 + below(2);
    if (!chance(40)) return;
    auto& vrf = wanted.links.add(plain("vrf0"));
    vrf.kind = kj::str("vrf");
    vrf.vrfTable = table;
    for (auto& name : hardware) {
      if (chance(50)) inVrf.insert(name);
    }
  }

  void addPair(Wanted& wanted, std::vector<std::string>& addressable) {
    if (!chance(40)) return;
    const char* peer = chance(70) ? "pair1" : "pair2";
    const std::pair<const char*, const char*> ends[] = {{"pair0", peer}, {peer, "pair0"}};
    for (auto& [name, other] : ends) {
      auto& end = wanted.links.add(plain(name));
      end.kind = kj::str("veth");
      end.peer = kj::str(other);
      if (chance(30)) end.mtu = mtu();
      addressable.push_back(name);
    }
  }

  void addRules(Wanted& wanted) {
    for (unsigned priority : {1500u, 1600u}) {
      if (!chance(50)) continue;
      netlink::Rule rule{.family = chance(50) ? AF_INET : AF_INET6,
                         .priority = priority,
                         .mark = below(2),
                         .table = 70 + below(2),
                         .protocol = kMark};
      if (rule.mark != 0) rule.mask = 0xffffffff;
      if (chance(30)) rule.iif = "eth0";
      bool four = rule.family == AF_INET && chance(50);
      if (four) rule.from = KJ_ASSERT_NONNULL(Prefix::parse("10.77.0.0/16"));
      wanted.rules.add(WantedRule{kj::mv(rule), 1});
    }
  }

  WantedLink tunnel(const std::string& name) {
    auto link = plain(name);
    link.kind = kj::str("wireguard");
    link.wireguard.privateKey = secret(below(3));
    if (chance(70)) link.wireguard.listenPort = 51820 + below(3);
    if (chance(50)) link.wireguard.firewallMark = below(3);
    for (unsigned i = 0; i < 6; ++i) {
      if (!chance(50)) continue;
      WantedPeer peer;
      peer.publicKey = secret(100 + i).publicKey();
      if (chance(60)) {
        peer.resolved = Endpoint{KJ_ASSERT_NONNULL(Ip::parse(kj::str("192.0.2.", 1 + below(3)))),
                                 uint16_t(9 + below(2))};
      }
      peer.keepalive = 5 * below(3);
      for (unsigned n = below(4); n > 0; --n) {
        peer.allowed.push_back(
            KJ_ASSERT_NONNULL(Prefix::parse(kj::str("10.7.", below(8), ".0/24"))));
      }
      link.wireguard.peers.add(kj::mv(peer));
    }
    return link;
  }

  void addVlans(Wanted& wanted, std::vector<std::string>& addressable) {
    auto parents = addressable;
    for (auto& parent : parents) {
      if (parent == "wg0") continue;
      for (unsigned id : {7u, 100u, 4094u}) {
        if (!chance(15)) continue;
        auto name = parent + "." + std::to_string(id);
        auto vlan = plain(name);
        vlan.kind = kj::str("vlan");
        vlan.parent = kj::str(parent.c_str());
        vlan.vlan = {uint16_t(id), uint16_t(chance(10) ? 0x88a8 : 0x8100)};
        wanted.links.add(kj::mv(vlan));
        addressable.push_back(name);
      }
    }
  }

  // Adds random options to a route.
  void vary(WantedRoute& route, Ip source) {
    if (chance(30)) route.source = source;
    if (chance(30)) route.mtu = mtu();
    route.onlink = chance(20);
    if (!chance(15)) return;
    constexpr uint8_t kTypes[] = {RTN_BLACKHOLE, RTN_UNREACHABLE, RTN_PROHIBIT};
    route = WantedRoute{.link = kj::String(),
                        .destination = route.destination,
                        .metric = route.metric,
                        .version = 1,
                        .type = kTypes[below(3)]};
  }

  void addAddresses(Wanted& wanted, const std::vector<std::string>& addressable) {
    unsigned number = 0;
    for (auto& name : addressable) {
      unsigned place = ++number;
      if (!chance(60)) continue;
      auto prefix = [&](auto&&... parts) {
        return KJ_ASSERT_NONNULL(Prefix::parse(kj::str(parts...)));
      };
      auto add = [&](Prefix p, unsigned order = 0) {
        wanted.addresses.add(WantedAddress{
            .link = kj::str(name.c_str()), .prefix = p, .version = 1, .order = order});
      };
      auto first = prefix("10.", 100 + place, ".0.", 2 + below(3), "/24");
      add(first, 1);
      if (chance(30)) add(prefix("10.", 100 + place, ".0.", 20 + below(3), "/24"), 2 * below(2));
      if (chance(30)) add(prefix("fd00:", place, "::", 2 + below(3), "/64"));
      if (chance(60)) {
        wanted.routes.add(WantedRoute{
            .link = kj::str(name.c_str()),
            .destination = prefix("172.16.", place, ".0/24"),
            .gateway = KJ_ASSERT_NONNULL(Ip::parse(kj::str("10.", 100 + place, ".0.1"))),
            .metric = 10,
            .version = 1});
        vary(wanted.routes.back(), first.address);
        bool other = inVrf.contains(name) ? chance(80) : chance(10);
        auto& route = wanted.routes.back();
        if (other) route.table = table;
        // The kernel refuses a source of another VRF than the route's.
        if (inVrf.contains(name) && !other) route.source = nullptr;
      }
    }
  }
};

// Describes the links of `names`, with all facts that a config can set and none that the kernel
// sets itself.
inline kj::String describeNetwork(netlink::Kernel& kernel, const Wanted& wanted) {
  std::vector<std::string> lines;
  auto observed = observe(kernel, true, 0, RandomNetwork::tables());
  auto nameOfIndex = [&](unsigned index) {
    return index == 0 ? kj::str("-") : nameOf(observed, index);
  };
  for (auto& want : wanted.links) {
    KJ_IF_MAYBE (link, observed.link(want.name)) {
      auto line = kj::str(link->name, " kind=", link->kind, " up=", link->up(), " mtu=", link->mtu,
                          " master=", nameOfIndex(link->master));
      if (link->kind == "vlan") {
        line = kj::str(line, " parent=", nameOfIndex(link->parent), " vlan=", link->vlan->id, "/",
                       link->vlan->protocol);
      }
      if (link->bond) {
        // Options without a meaning in the bond's mode may keep a value of another mode.
        auto options = netlink::effectiveBond(*link->bond, [](auto, auto) {});
        auto primary = (*link->bond)[netlink::BondOption::kPrimary].value_or(0);
        line = kj::str(line, " ", netlink::describe(options), " primary=", nameOfIndex(primary));
      }
      if (link->vrfTable) line = kj::str(line, " table=", *link->vrfTable);
      if (link->kind == "veth") line = kj::str(line, " peer=", nameOfIndex(link->parent));
      if (link->bridge) {
        line = kj::str(line, " stp=", *link->bridge->stp, " filter=", *link->bridge->vlanFiltering);
      }
      lines.push_back(line.cStr());
    } else {
      lines.push_back(kj::str(want.name, " is missing").cStr());
    }
  }
  for (auto& tunnel : observed.tunnels) {
    auto& device = tunnel.device;
    lines.push_back(
        kj::str("tunnel ", netlink::toText(device.publicKey), " mark ", device.firewallMark)
            .cStr());
    for (auto& peer : device.peers) {
      auto allowed = peer.allowed;
      std::sort(allowed.begin(), allowed.end());
      kj::Vector<kj::String> networks;
      for (auto& network : allowed) networks.add(network.toString());
      lines.push_back(kj::str("peer ", netlink::toText(peer.publicKey), " ", peer.keepalive, " ",
                              kj::strArray(networks, " "))
                          .cStr());
    }
  }
  for (auto& address : observed.addresses) {
    if (address.protocol != kMark) continue;
    bool secondary = (address.flags & 1) != 0;  // IFA_F_SECONDARY
    lines.push_back(kj::str("address ", address.prefix, " ", nameOfIndex(address.link),
                            secondary ? " secondary" : "")
                        .cStr());
  }
  for (auto& route : observed.routes) {
    if (route.protocol != kMark) continue;
    KJ_IF_MAYBE (source, route.source) lines.push_back(kj::str("source ", *source).cStr());
    lines.push_back(kj::str(netlink::routeTypeName(route.type), " route ", route.destination, " ",
                            nameOfIndex(route.link), " mtu ", route.mtu, " table ", route.table,
                            (route.flags & RTNH_F_ONLINK) != 0 ? " onlink" : "")
                        .cStr());
  }
  for (auto& rule : observed.rules) {
    if (rule.protocol == kMark) lines.push_back(netlink::nameOfRule(rule).cStr());
  }
  std::sort(lines.begin(), lines.end());
  kj::Vector<kj::String> texts;
  for (auto& line : lines) texts.add(kj::str(line.c_str()));
  return kj::strArray(texts, "\n");
}

}  // namespace talos::networkd
