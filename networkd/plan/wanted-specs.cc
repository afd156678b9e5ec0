#include "networkd/plan/wanted-specs.h"

#include "common/bond/bond-options.h"

namespace talos::networkd {
namespace {

constexpr unsigned kMaxResolvers = 3;      // the C library's limit
constexpr uint32_t kAllBits = 0xffffffff;  // of a mark that is given without a mask

// If `text` is empty, the address decides.
kj::Maybe<uint8_t> scopeOf(kj::StringPtr text, const Ip& address) {
  if (text == "global") return uint8_t(RT_SCOPE_UNIVERSE);
  if (text == "site") return uint8_t(RT_SCOPE_SITE);
  if (text == "link") return uint8_t(RT_SCOPE_LINK);
  if (text == "host") return uint8_t(RT_SCOPE_HOST);
  if (text.size() > 0) return nullptr;
  if (address.isLoopback()) return uint8_t(RT_SCOPE_HOST);
  if (address.isLinkLocal()) return uint8_t(RT_SCOPE_LINK);
  return uint8_t(RT_SCOPE_UNIVERSE);
}

bool familyFits(kj::StringPtr text, int family) {
  return text.size() == 0 || text == (family == AF_INET ? "inet4" : "inet6");
}

template <typename... Parts>
void problem(Wanted& wanted, Parts&&... parts) {
  wanted.problems.add(kj::str(kj::fwd<Parts>(parts)...));
}

uint8_t typeOf(config::RouteType type) {
  switch (type) {
    case config::RouteType::BLACKHOLE:
      return RTN_BLACKHOLE;
    case config::RouteType::UNREACHABLE:
      return RTN_UNREACHABLE;
    case config::RouteType::PROHIBIT:
      return RTN_PROHIBIT;
    case config::RouteType::UNICAST:
      break;
  }
  return RTN_UNICAST;
}

// Returns false, and adds a problem, if an attribute is not valid.
bool addAttributes(Wanted& wanted, kj::StringPtr id, WantedRoute& route,
                   rpc::RouteSpecSpec::Reader spec) {
  route.type = typeOf(spec.getType());
  if (route.type != RTN_UNICAST) {
    bool goesOn = route.gateway != nullptr || route.link.size() > 0 ||
                  spec.getSource().size() > 0 || spec.getMtu() != 0 || spec.getOnlink();
    if (goesOn) {
      problem(wanted, "RouteSpec ", id, ": a route of type ", netlink::routeTypeName(route.type),
              " has no link, gateway, source or MTU");
    }
    return !goesOn;
  }
  route.mtu = spec.getMtu();
  route.onlink = spec.getOnlink() && route.gateway != nullptr;
  if (spec.getSource().size() == 0) return true;
  KJ_IF_MAYBE (source, Ip::parse(spec.getSource())) {
    route.source = *source;
    if (source->family() == route.destination.address.family()) return true;
  }
  problem(wanted, "RouteSpec ", id, ": source \"", spec.getSource(),
          "\" is not an address of the destination's family");
  return false;
}

}  // namespace

void addAddress(Wanted& wanted, kj::StringPtr id, uint64_t version,
                rpc::AddressSpecSpec::Reader spec) {
  KJ_IF_MAYBE (prefix, Prefix::parse(spec.getAddress())) {
    KJ_IF_MAYBE (scope, scopeOf(spec.getScope(), prefix->address)) {
      if (!familyFits(spec.getFamily(), prefix->address.family())) {
        problem(wanted, "AddressSpec ", id, ": family \"", spec.getFamily(), "\" does not fit ",
                *prefix);
        return;
      }
      if (prefix->address.isMulticast() || prefix->address.isAny()) {
        problem(wanted, "AddressSpec ", id, ": ", *prefix, " is not a valid address of a link");
        return;
      }
      wanted.addresses.add(
          WantedAddress{kj::str(spec.getLinkName()), *prefix, *scope, version, spec.getOrder()});
    } else {
      problem(wanted, "AddressSpec ", id, ": scope \"", spec.getScope(),
              "\" is none of global, site, link, host");
    }
  } else {
    problem(wanted, "AddressSpec ", id, ": \"", spec.getAddress(),
            "\" is not a valid address with a prefix length; for example 10.5.0.2/24");
  }
}

namespace {

// Returns the table, the main one if the text is empty; nullptr if it is not valid.
kj::Maybe<uint32_t> tableOf(kj::StringPtr text) {
  if (text.size() == 0) return uint32_t(RT_TABLE_MAIN);
  return netlink::parseTable(text);
}

uint8_t actionOf(config::RuleAction action) {
  switch (action) {
    case config::RuleAction::BLACKHOLE:
      return FR_ACT_BLACKHOLE;
    case config::RuleAction::UNREACHABLE:
      return FR_ACT_UNREACHABLE;
    case config::RuleAction::PROHIBIT:
      return FR_ACT_PROHIBIT;
    case config::RuleAction::UNICAST:
      break;
  }
  return FR_ACT_TO_TBL;
}

}  // namespace

void addRule(Wanted& wanted, kj::StringPtr id, uint64_t version,
             rpc::RoutingRuleSpecSpec::Reader spec) {
  netlink::Rule rule{.family = spec.getFamily() == "inet6" ? AF_INET6 : AF_INET,
                     .priority = spec.getPriority(),
                     .mark = spec.getFwMark(),
                     .mask = spec.getFwMask(),
                     .iif = spec.getInLinkName().cStr(),
                     .oif = spec.getOutLinkName().cStr(),
                     .action = actionOf(spec.getAction()),
                     .protocol = kMark};
  if (rule.mark != 0 && rule.mask == 0) rule.mask = kAllBits;  // as the kernel then shows it
  auto network = [&](kj::StringPtr text, std::optional<Prefix>& out) {
    if (text.size() == 0) return true;
    KJ_IF_MAYBE (prefix, Prefix::parse(text)) {
      if (prefix->length > 0) out = prefix->masked();
      if (prefix->address.family() == rule.family) return true;
    }
    problem(wanted, "RoutingRuleSpec ", id, ": \"", text, "\" is not a network of its family");
    return false;
  };
  if (!network(spec.getSource(), rule.from) || !network(spec.getDestination(), rule.to)) return;
  if (rule.action == FR_ACT_TO_TBL) {
    KJ_IF_MAYBE (table, netlink::parseTable(spec.getTable())) {
      rule.table = *table;
    } else {
      problem(wanted, "RoutingRuleSpec ", id, ": \"", spec.getTable(), "\" is not a table");
      return;
    }
  }
  wanted.rules.add(WantedRule{kj::mv(rule), version});
}

void addRoute(Wanted& wanted, kj::StringPtr id, uint64_t version, rpc::RouteSpecSpec::Reader spec) {
  WantedRoute route{
      .link = kj::str(spec.getLinkName()), .metric = spec.getMetric(), .version = version};
  int family = spec.getFamily() == "inet6" ? AF_INET6 : AF_INET;
  if (spec.getGateway().size() > 0) {
    KJ_IF_MAYBE (gateway, Ip::parse(spec.getGateway())) {
      family = gateway->family();
      if (!gateway->isAny()) route.gateway = *gateway;  // 0.0.0.0 and :: mean no gateway
    } else {
      problem(wanted, "RouteSpec ", id, ": gateway \"", spec.getGateway(), "\" is not an address");
      return;
    }
  }
  route.destination = Prefix::all(family);
  if (spec.getDestination().size() > 0) {
    KJ_IF_MAYBE (destination, Prefix::parse(spec.getDestination())) {
      route.destination = destination->masked();
    } else {
      problem(wanted, "RouteSpec ", id, ": destination \"", spec.getDestination(),
              "\" is not a prefix, as 10.9.0.0/16");
      return;
    }
  }
  if (!familyFits(spec.getFamily(), route.destination.address.family()) ||
      (spec.getGateway().size() > 0 && route.destination.address.family() != family)) {
    problem(wanted, "RouteSpec ", id,
            ": family, destination and gateway are not all IPv4 or all IPv6");
    return;
  }
  if (!addAttributes(wanted, id, route, spec)) return;
  KJ_IF_MAYBE (table, tableOf(spec.getTable())) {
    route.table = *table;
  } else {
    problem(wanted, "RouteSpec ", id, ": \"", spec.getTable(), "\" is not a table");
    return;
  }
  wanted.routes.add(kj::mv(route));
}

kj::String resolverFile(kj::ArrayPtr<const kj::String> servers,
                        kj::ArrayPtr<const kj::String> search) {
  kj::Vector<kj::String> lines;
  for (auto& server : servers) {
    if (lines.size() == kMaxResolvers) break;
    KJ_IF_MAYBE (ip, Ip::parse(server)) lines.add(kj::str("nameserver ", *ip, "\n"));
  }
  kj::Vector<kj::StringPtr> domains;
  for (auto& domain : search) {
    bool plain = domain.size() > 0;
    for (char c : domain) plain = plain && c > ' ' && c < 0x7f;
    if (plain) domains.add(domain);
  }
  if (domains.size() > 0) lines.add(kj::str("search ", kj::strArray(domains, " "), "\n"));
  return kj::strArray(lines, "");
}

namespace {

constexpr uint16_t kTag = 0x8100, kServiceTag = 0x88a8;
constexpr uint32_t kLongestKeepalive = 65535;

template <typename... Parts>
void linkProblem(Wanted& wanted, kj::StringPtr name, Parts&&... parts) {
  wanted.problems.add(kj::str("LinkSpec ", name, ": ", kj::fwd<Parts>(parts)...));
}

// A bad peer is left out; the others work.
void addPeer(Wanted& wanted, kj::StringPtr name, WantedWireguard& tunnel,
             rpc::WireguardSpec::Peer::Reader spec) {
  WantedPeer peer;
  KJ_IF_MAYBE (key, netlink::parseWireguardKey(spec.getPublicKey())) {
    peer.publicKey = *key;
  } else {
    linkProblem(wanted, name, "the public key \"", spec.getPublicKey(),
                "\" of a peer is not valid base64 of 32 bytes");
    return;
  }
  for (auto& other : tunnel.peers) {
    if (other.publicKey == peer.publicKey) {
      linkProblem(wanted, name, "duplicate peer: two have the key ", spec.getPublicKey());
      return;
    }
  }
  peer.endpoint = kj::str(spec.getEndpoint());
  KJ_IF_MAYBE (there, Endpoint::parse(peer.endpoint)) peer.resolved = *there;  // else a name
  peer.keepalive = kj::min(spec.getPersistentKeepaliveInterval(), kLongestKeepalive);
  for (auto text : spec.getAllowedIPs()) {
    KJ_IF_MAYBE (network, Prefix::parse(text)) {
      peer.allowed.push_back(network->masked());
    } else {
      linkProblem(wanted, name, "\"", text, "\" of the peer ", spec.getPublicKey(),
                  " is not a valid network; use for example 192.168.88.0/24");
    }
  }
  tunnel.peers.add(kj::mv(peer));
}

bool knownKind(kj::StringPtr kind) {
  for (auto known : {""_kj, "bond"_kj, "bridge"_kj, "dummy"_kj, "veth"_kj, "vlan"_kj, "vrf"_kj,
                     "wireguard"_kj}) {
    if (kind == known) return true;
  }
  return false;
}

}  // namespace

void addLink(Wanted& wanted, kj::StringPtr id, uint64_t version, rpc::LinkSpecSpec::Reader spec) {
  if (spec.getProblem().size() > 0) {
    wanted.problems.add(kj::str(spec.getProblem()));
    return;
  }
  WantedLink link;
  link.name = kj::str(spec.hasName() ? kj::StringPtr(spec.getName()) : id);
  link.up = spec.getUp();
  link.mtu = spec.getMtu();
  link.layer = kj::str(spec.getLayer());
  link.version = version;
  link.kind = kj::str(spec.getKind());
  link.parent = kj::str(spec.getParentName());
  link.master = kj::str(spec.getMasterName());
  if (!knownKind(link.kind)) {
    linkProblem(wanted, link.name, "networkd cannot create links of kind \"", link.kind, "\"");
    return;
  }
  if (link.kind == "vlan") {
    bool service = spec.getVlan().getVlanProtocol() == k8021ad;
    link.vlan = {spec.getVlan().getVlanID(), service ? kServiceTag : kTag};
  }
  if (link.kind == "bond") {
    link.bond = netlink::bondOptions(spec.getBondMaster());
    link.primary = kj::str(spec.getBondMaster().getPrimary());
    auto system = spec.getBondMaster().getAdActorSystem();
    if (system.size() > 0 && !link.bond.actorSystem) {
      linkProblem(wanted, link.name, "adActorSystem \"", system, "\" is not a valid MAC address");
    }
  }
  if (link.kind == "bridge") {
    link.bridge = {spec.getBridgeMaster().getStp(), spec.getBridgeMaster().getVlanFiltering()};
  }
  if (link.kind == "veth") link.peer = kj::str(spec.getVeth().getPeerName());
  if (link.kind == "vrf") {
    KJ_IF_MAYBE (table, netlink::parseTable(spec.getVrfMaster().getTable())) {
      link.vrfTable = *table;
    } else {
      return linkProblem(wanted, link.name, "\"", spec.getVrfMaster().getTable(),
                         "\" is not a table");
    }
  }
  if (link.kind == "wireguard") {
    link.wireguard.listenPort = spec.getWireguard().getListenPort();
    link.wireguard.firewallMark = spec.getWireguard().getFirewallMark();
    for (auto peer : spec.getWireguard().getPeers()) {
      addPeer(wanted, link.name, link.wireguard, peer);
    }
  }
  wanted.links.add(kj::mv(link));
}

void addWireguardKey(Wanted& wanted, kj::StringPtr id, rpc::WireguardKeySpec::Reader spec) {
  for (auto& link : wanted.links) {
    if (link.name != id || link.kind != "wireguard") continue;
    link.wireguard.privateKey = netlink::WireguardSecret::parse(spec.getPrivateKey());
    if (link.wireguard.privateKey == nullptr) {
      linkProblem(wanted, id, "its private key is not valid base64 of 32 bytes");
    }
  }
}

}  // namespace talos::networkd
