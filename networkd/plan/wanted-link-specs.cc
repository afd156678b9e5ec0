// Reads LinkSpecs into the values that plan() takes.
#include "common/bond/bond-options.h"
#include "networkd/plan/wanted-specs.h"

namespace talos::networkd {

namespace {

constexpr uint16_t kTag = 0x8100, kServiceTag = 0x88a8;
constexpr uint32_t kLongestKeepalive = 65535;

template <typename... Parts>
void problem(Wanted& wanted, kj::StringPtr name, Parts&&... parts) {
  wanted.problems.add(kj::str("LinkSpec ", name, ": ", kj::fwd<Parts>(parts)...));
}

// A bad peer is left out; the others work.
void addPeer(Wanted& wanted, kj::StringPtr name, WantedWireguard& tunnel,
             rpc::WireguardSpec::Peer::Reader spec) {
  WantedPeer peer;
  KJ_IF_MAYBE (key, netlink::parseWireguardKey(spec.getPublicKey())) {
    peer.publicKey = *key;
  } else {
    problem(wanted, name, "the public key \"", spec.getPublicKey(),
            "\" of a peer is not valid base64 of 32 bytes");
    return;
  }
  for (auto& other : tunnel.peers) {
    if (other.publicKey == peer.publicKey) {
      problem(wanted, name, "duplicate peer: two have the key ", spec.getPublicKey());
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
      problem(wanted, name, "\"", text, "\" of the peer ", spec.getPublicKey(),
              " is not a valid network; use for example 192.168.88.0/24");
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
    problem(wanted, link.name, "networkd cannot create links of kind \"", link.kind, "\"");
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
      problem(wanted, link.name, "adActorSystem \"", system, "\" is not a valid MAC address");
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
      problem(wanted, id, "its private key is not valid base64 of 32 bytes");
    }
  }
}

}  // namespace talos::networkd
