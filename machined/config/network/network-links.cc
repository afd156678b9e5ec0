#include "machined/config/network/network-links.h"

#include "common/net/text-values.h"

namespace talos::machined {

namespace {
constexpr size_t kLongestName = 15;
}

BridgeConfig bridgeConfig(config::Bridge::Reader bridge) {
  BridgeConfig result;
  for (auto port : bridge.getInterfaces()) result.interfaces.add(kj::str(port));
  result.stp = bridge.getStp().getEnabled();
  result.vlanFiltering = bridge.getVlan().getVlanFiltering();
  return result;
}

WireguardConfig wireguardConfig(config::Wireguard::Reader wireguard) {
  WireguardConfig result;
  result.privateKey = netlink::WireguardSecret::parse(wireguard.getPrivateKey());
  result.listenPort = wireguard.getListenPort();
  result.firewallMark = wireguard.getFirewallMark();
  for (auto peer : wireguard.getPeers()) {
    WireguardConfig::Peer entry;
    entry.publicKey = kj::str(peer.getPublicKey());
    entry.endpoint = kj::str(peer.getEndpoint());
    KJ_IF_MAYBE (every, config::parseDuration(peer.getPersistentKeepaliveInterval())) {
      entry.keepalive = *every / kj::SECONDS;  // a part of a second is dropped
    }
    for (auto network : peer.getAllowedIPs()) entry.allowed.add(kj::str(network));
    result.peers.add(kj::mv(entry));
  }
  return result;
}

kj::Maybe<kj::String> vlanName(kj::StringPtr parent, uint16_t id) {
  auto name = kj::str(parent, ".", id);
  if (name.size() > kLongestName) return nullptr;
  return kj::mv(name);
}

void LinkMaking::fill(rpc::LinkSpecSpec::Builder spec) const {
  spec.setKind(kind);
  spec.setLogical(kind.size() > 0);
  spec.setParentName(parent);
  spec.setMasterName(master);
  if (kind == "vlan") spec.initVlan().setVlanID(vlanId);
  if (bond != nullptr) spec.setBondMaster(bond->get());
  if (bridge != nullptr) {
    spec.initBridgeMaster().setStp(bridge->stp);
    spec.getBridgeMaster().setVlanFiltering(bridge->vlanFiltering);
  }
  if (wireguard != nullptr) {
    auto out = spec.initWireguard();
    KJ_IF_MAYBE (secret, wireguard->privateKey) {
      out.setPublicKey(netlink::toText(secret->publicKey()));
    }
    out.setListenPort(wireguard->listenPort);
    out.setFirewallMark(wireguard->firewallMark);
    auto peers = out.initPeers(wireguard->peers.size());
    for (size_t i = 0; i < peers.size(); ++i) {
      auto& peer = wireguard->peers[i];
      peers[i].setPublicKey(peer.publicKey);
      peers[i].setEndpoint(peer.endpoint);
      peers[i].setPersistentKeepaliveInterval(peer.keepalive);
      auto networks = peers[i].initAllowedIPs(peer.allowed.size());
      for (size_t n = 0; n < networks.size(); ++n) networks.set(n, peer.allowed[n]);
    }
  }
}

}  // namespace talos::machined
