// LinkSpecs as what plan() wants.
#include "networkd/specs.h"

namespace talos::networkd {

using netlink::BondOption;
using netlink::BondOptions;
using O = BondOption;

namespace {

constexpr uint16_t kTag = 0x8100, kServiceTag = 0x88a8;
constexpr uint32_t kLongestKeepalive = 65535;

kj::Maybe<netlink::Mac> parseMac(kj::StringPtr text) {
  netlink::Mac mac;
  if (text.size() != mac.size() * 3 - 1) return nullptr;
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < mac.size(); ++i) {
    int high = digit(text[i * 3]), low = digit(text[i * 3 + 1]);
    bool separated = i + 1 == mac.size() || text[i * 3 + 2] == ':';
    if (high < 0 || low < 0 || !separated) return nullptr;
    mac[i] = high << 4 | low;
  }
  return mac;
}

// "10.0.0.1:51820", "[fd00::1]:51820"; none when its host is a name.
std::optional<netlink::Endpoint> parseEndpoint(kj::StringPtr text) {
  KJ_IF_MAYBE (colon, text.findLast(':')) {
    auto host = kj::str(text.slice(0, *colon));
    if (host.startsWith("[") && host.endsWith("]")) host = kj::str(host.slice(1, host.size() - 1));
    auto port = kj::StringPtr(text.slice(*colon + 1)).tryParseAs<uint16_t>();
    auto address = Ip::parse(host);
    KJ_IF_MAYBE (a, address) {
      KJ_IF_MAYBE (p, port) return netlink::Endpoint{*a, *p};
    }
  }
  return {};
}

template <typename... Parts>
void problem(Wanted& wanted, kj::StringPtr name, Parts&&... parts) {
  wanted.problems.add(kj::str("LinkSpec ", name, ": ", kj::fwd<Parts>(parts)...));
}

// One bad peer is left out; the others work.
void addPeer(Wanted& wanted, kj::StringPtr name, WantedWireguard& tunnel,
             rpc::WireguardSpec::Peer::Reader spec) {
  WantedPeer peer;
  KJ_IF_MAYBE (key, netlink::parseWireguardKey(spec.getPublicKey())) {
    peer.publicKey = *key;
  } else {
    problem(wanted, name, "the public key \"", spec.getPublicKey(),
            "\" of a peer is not the base64 of 32 octets");
    return;
  }
  for (auto& other : tunnel.peers) {
    if (other.publicKey == peer.publicKey) {
      problem(wanted, name, "two peers have the key ", spec.getPublicKey());
      return;
    }
  }
  peer.endpoint = kj::str(spec.getEndpoint());
  peer.resolved = parseEndpoint(peer.endpoint);
  peer.keepalive = kj::min(spec.getPersistentKeepaliveInterval(), kLongestKeepalive);
  for (auto text : spec.getAllowedIPs()) {
    KJ_IF_MAYBE (network, Prefix::parse(text)) {
      peer.allowed.push_back(network->masked());
    } else {
      problem(wanted, name, "\"", text, "\" of the peer ", spec.getPublicKey(),
              " is no network, as 192.168.88.0/24");
    }
  }
  tunnel.peers.add(kj::mv(peer));
}

bool knownKind(kj::StringPtr kind) {
  for (auto known : {""_kj, "bond"_kj, "bridge"_kj, "dummy"_kj, "vlan"_kj, "wireguard"_kj}) {
    if (kind == known) return true;
  }
  return false;
}

}  // namespace

void addLink(Wanted& wanted, kj::StringPtr id, uint64_t version, rpc::LinkSpecSpec::Reader spec) {
  WantedLink link;
  link.name = kj::str(spec.hasName() ? kj::StringPtr(spec.getName()) : id);
  link.up = spec.getUp();
  link.mtu = spec.getMtu();
  link.version = version;
  link.kind = kj::str(spec.getKind());
  link.parent = kj::str(spec.getParentName());
  link.master = kj::str(spec.getMasterName());
  if (!knownKind(link.kind)) {
    problem(wanted, link.name, "networkd makes no links of kind \"", link.kind, "\"");
    return;
  }
  if (link.kind == "vlan") {
    bool service = spec.getVlan().getVlanProtocol() == k8021ad;
    link.vlan = {spec.getVlan().getVlanID(), service ? kServiceTag : kTag};
  }
  if (link.kind == "bond") {
    link.bond = bondOptions(spec.getBondMaster());
    link.primary = kj::str(spec.getBondMaster().getPrimary());
    auto system = spec.getBondMaster().getAdActorSystem();
    if (system.size() > 0 && !link.bond.actorSystem) {
      problem(wanted, link.name, "adActorSystem \"", system, "\" is not a MAC address");
    }
  }
  if (link.kind == "bridge") {
    link.bridge = {spec.getBridgeMaster().getStp(), spec.getBridgeMaster().getVlanFiltering()};
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
      problem(wanted, id, "its private key is not the base64 of 32 octets");
    }
  }
}

// Where the config's zero stands for the standard, it is not given.
BondOptions bondOptions(config::Bond::Reader bond) {
  BondOptions options;
  auto some = [&](O option, uint32_t value) {
    if (value != 0) options[option] = value;
  };
  options[O::kMode] = uint32_t(bond.getMode());
  some(O::kMiimon, bond.getMiimon());
  some(O::kUpDelay, bond.getUpdelay());
  some(O::kDownDelay, bond.getDowndelay());
  options[O::kUseCarrier] = bond.getUseCarrier() ? 1 : 0;
  some(O::kArpInterval, bond.getArpInterval());
  some(O::kArpValidate, uint32_t(bond.getArpValidate()));
  some(O::kArpAllTargets, uint32_t(bond.getArpAllTargets()));
  some(O::kPrimaryReselect, uint32_t(bond.getPrimaryReselect()));
  some(O::kFailOverMac, uint32_t(bond.getFailOverMac()));
  some(O::kXmitHashPolicy, uint32_t(bond.getXmitHashPolicy()));
  options[O::kResendIgmp] = bond.getResendIgmp();
  options[O::kNumPeerNotif] = bond.getNumPeerNotif();
  some(O::kAllMembersActive, bond.getAllSlavesActive());
  some(O::kMinLinks, bond.getMinLinks());
  some(O::kLpInterval, bond.getLpInterval());
  options[O::kPacketsPerMember] = bond.getPacketsPerSlave();
  some(O::kLacpRate, uint32_t(bond.getLacpRate()));
  some(O::kAdSelect, uint32_t(bond.getAdSelect()));
  some(O::kAdActorSysPrio, bond.getAdActorSysPrio());
  some(O::kAdUserPortKey, bond.getAdUserPortKey());
  options[O::kTlbDynamicLb] = bond.getTlbDynamicLb();
  some(O::kPeerNotifDelay, bond.getPeerNotifyDelay());
  std::vector<Ip> targets;
  for (auto text : bond.getArpIPTarget()) {
    KJ_IF_MAYBE (ip, Ip::parse(text)) {
      if (ip->family() == AF_INET) targets.push_back(*ip);
    }
  }
  if (!targets.empty()) options.arpTargets = std::move(targets);
  KJ_IF_MAYBE (mac, parseMac(bond.getAdActorSystem())) {
    if (*mac != netlink::Mac{}) options.actorSystem = *mac;
  }
  return options;
}

void fillBond(config::Bond::Builder out, const BondOptions& options) {
  auto take = [&](O option, auto&& set) {
    if (options[option]) set(*options[option]);
  };
  out.setMode(config::BondMode(options.mode()));
  take(O::kMiimon, [&](auto v) { out.setMiimon(v); });
  take(O::kUpDelay, [&](auto v) { out.setUpdelay(v); });
  take(O::kDownDelay, [&](auto v) { out.setDowndelay(v); });
  take(O::kUseCarrier, [&](auto v) { out.setUseCarrier(v != 0); });
  take(O::kArpInterval, [&](auto v) { out.setArpInterval(v); });
  take(O::kArpValidate, [&](auto v) { out.setArpValidate(config::BondArpValidate(v)); });
  take(O::kArpAllTargets, [&](auto v) { out.setArpAllTargets(config::BondArpAllTargets(v)); });
  take(O::kPrimaryReselect,
       [&](auto v) { out.setPrimaryReselect(config::BondPrimaryReselect(v)); });
  take(O::kFailOverMac, [&](auto v) { out.setFailOverMac(config::BondFailOverMac(v)); });
  take(O::kXmitHashPolicy, [&](auto v) { out.setXmitHashPolicy(config::BondXmitHashPolicy(v)); });
  take(O::kResendIgmp, [&](auto v) { out.setResendIgmp(v); });
  take(O::kNumPeerNotif, [&](auto v) { out.setNumPeerNotif(v); });
  take(O::kAllMembersActive, [&](auto v) { out.setAllSlavesActive(v); });
  take(O::kMinLinks, [&](auto v) { out.setMinLinks(v); });
  take(O::kLpInterval, [&](auto v) { out.setLpInterval(v); });
  take(O::kPacketsPerMember, [&](auto v) { out.setPacketsPerSlave(v); });
  take(O::kLacpRate, [&](auto v) { out.setLacpRate(config::BondLacpRate(v)); });
  take(O::kAdSelect, [&](auto v) { out.setAdSelect(config::BondAdSelect(v)); });
  take(O::kAdActorSysPrio, [&](auto v) { out.setAdActorSysPrio(v); });
  take(O::kAdUserPortKey, [&](auto v) { out.setAdUserPortKey(v); });
  take(O::kTlbDynamicLb, [&](auto v) { out.setTlbDynamicLb(v); });
  take(O::kPeerNotifDelay, [&](auto v) { out.setPeerNotifyDelay(v); });
  if (options.arpTargets && !options.arpTargets->empty()) {
    auto list = out.initArpIPTarget(options.arpTargets->size());
    for (size_t i = 0; i < list.size(); ++i) list.set(i, (*options.arpTargets)[i].toString());
  }
}

}  // namespace talos::networkd
