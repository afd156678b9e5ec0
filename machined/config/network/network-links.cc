#include "machined/config/network/network-links.h"

#include "common/net/text-values.h"
#include "common/netlink/netlink-rule.h"

namespace talos::machined {
namespace {

constexpr size_t kLongestName = 15;

void fillPeer(rpc::WireguardSpec::Peer::Builder out, config::WireguardPeer::Reader peer) {
  out.setPublicKey(peer.getPublicKey());
  out.setEndpoint(peer.getEndpoint());
  KJ_IF_MAYBE (every, config::parseDuration(peer.getPersistentKeepaliveInterval())) {
    out.setPersistentKeepaliveInterval(*every / kj::SECONDS);  // a part of a second is dropped
  }
  out.setAllowedIPs(peer.getAllowedIPs());
}

bool isDummyName(kj::StringPtr name) {
  constexpr auto kPrefix = "dummy"_kj;
  if (!name.startsWith(kPrefix) || name.size() == kPrefix.size()) return false;
  for (char c : name.slice(kPrefix.size())) {
    if (c < '0' || c > '9') return false;
  }
  return true;
}

bool isCard(kj::StringPtr name, kj::ArrayPtr<const KnownLink> known) {
  for (auto& link : known) {
    if (link.name == name) return link.hardware && !link.made;
  }
  return false;
}

}  // namespace

void PlannedLink::setKind(kj::StringPtr kind) {
  spec.edit().setKind(kind);
  spec.edit().setLogical(true);
}

void PlannedLink::setVlan(kj::StringPtr parent, uint16_t id, kj::StringPtr protocol) {
  spec.edit().setParentName(parent);
  auto vlan = spec.edit().initVlan();
  vlan.setVlanID(id);
  if (protocol != vlan.asReader().getVlanProtocol()) vlan.setVlanProtocol(protocol);
}

void PlannedLink::setBridge(config::Bridge::Reader bridge) {
  auto options = spec.edit().initBridgeMaster();
  options.setStp(bridge.getStp().getEnabled());
  options.setVlanFiltering(bridge.getVlan().getVlanFiltering());
}

void PlannedLink::setVrf(uint32_t table) {
  spec.edit().initVrfMaster().setTable(netlink::tableName(table));
}

void PlannedLink::setVeth(kj::StringPtr peer) {
  spec.edit().initVeth().setPeerName(peer);
}

void PlannedLink::setWireguard(config::Wireguard::Reader wireguard) {
  auto device = spec.edit().initWireguard();
  privateKey = netlink::WireguardSecret::parse(wireguard.getPrivateKey());
  KJ_IF_MAYBE (key, privateKey) device.setPublicKey(netlink::toText(key->publicKey()));
  device.setListenPort(wireguard.getListenPort());
  device.setFirewallMark(wireguard.getFirewallMark());
  auto peers = device.initPeers(wireguard.getPeers().size());
  for (auto i : kj::indices(peers)) fillPeer(peers[i], wireguard.getPeers()[i]);
}

void makeDummies(kj::ArrayPtr<PlannedLink> links, kj::ArrayPtr<const KnownLink> known) {
  for (auto& link : links) {
    bool dummy = link.kind().size() == 0 && isDummyName(link.name) && !isCard(link.name, known);
    if (dummy) link.setKind("dummy");
  }
}

kj::Maybe<kj::String> vlanName(kj::StringPtr parent, uint16_t id) {
  auto name = kj::str(parent, ".", id);
  if (name.size() > kLongestName) return nullptr;
  return kj::mv(name);
}

}  // namespace talos::machined
