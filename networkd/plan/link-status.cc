// Builds LinkStatuses.
#include <kj/debug.h>
#include <net/if.h>
#include <net/if_arp.h>

#include "common/bond/bond-options.h"
#include "networkd/plan/status-records.h"
#include "networkd/plan/wanted-specs.h"

namespace talos::networkd {

using netlink::BondOption;
using netlink::hardwareText;
using netlink::Link;

namespace {

kj::StringPtr linkTypeName(uint16_t type) {
  switch (type) {
    case ARPHRD_ETHER:
      return "ether";
    case ARPHRD_LOOPBACK:
      return "loopback";
    case ARPHRD_INFINIBAND:
      return "infiniband";
    case ARPHRD_PPP:
      return "ppp";
    case ARPHRD_TUNNEL:
      return "tunnel";
    case ARPHRD_TUNNEL6:
      return "tunnel6";
    case ARPHRD_SIT:
      return "sit";
    case ARPHRD_NONE:
      return "none";
    default:
      return "other";
  }
}

// Names the states of RFC 2863, in the numbers of IF_OPER_*.
kj::StringPtr stateName(uint8_t state) {
  constexpr kj::StringPtr kNames[] = {"unknown"_kj, "notPresent"_kj, "down"_kj, "lowerLayerDown"_kj,
                                      "testing"_kj, "dormant"_kj,    "up"_kj};
  return state < kj::size(kNames) ? kNames[state] : kNames[0];
}

void fillVlan(rpc::VlanSpec::Builder out, const netlink::VlanTag& tag) {
  out.setVlanID(tag.id);
  out.setVlanProtocol(tag.protocol == 0x88a8 ? k8021ad : k8021q);
}

void fillBondOf(config::Bond::Builder out, const Observed& observed, const Link& bond) {
  netlink::fillBond(out, *bond.bond);
  auto primary = (*bond.bond)[BondOption::kPrimary].value_or(0);
  if (primary != 0) out.setPrimary(nameOf(observed, primary));
  auto& system = bond.bond->actorSystem;
  if (system && *system != netlink::Mac{}) {
    out.setAdActorSystem(hardwareText(kj::arrayPtr(system->data(), system->size())));
  }
  kj::Vector<kj::StringPtr> members;
  for (auto& link : observed.links) {
    if (link.master == bond.index) members.add(link.name);
  }
  fillTexts(out.initInterfaces(members.size()), members);
}

void fillMember(rpc::LinkStatusSpec::BondMember::Builder out, const Observed& observed,
                const Link& link) {
  auto& member = *link.bondMember;
  out.setState(member.backup ? "backup" : "active");
  out.setMiiStatus(netlink::miiStatusName(member.miiStatus));
  out.setFailures(member.failures);
  out.setPermanentAddress(
      hardwareText(kj::arrayPtr(member.permanentAddress.data(), member.permanentAddress.size())));
  out.setAggregator(member.aggregator);
  KJ_IF_MAYBE (bond, observed.link(link.master)) {
    if (bond->bondPartner) {
      auto& mac = bond->bondPartner->partner;
      out.setPartner(hardwareText(kj::arrayPtr(mac.data(), mac.size())));
    }
  }
}

// Handshakes and counters are left out: they change without a notice from the kernel.
void fillTunnel(rpc::WireguardSpec::Builder out, const netlink::WireguardDevice& device) {
  if (device.publicKey != netlink::WireguardKey{}) {
    out.setPublicKey(netlink::toText(device.publicKey));
  }
  out.setListenPort(device.listenPort);
  out.setFirewallMark(device.firewallMark);
  auto peers = out.initPeers(device.peers.size());
  for (size_t i = 0; i < peers.size(); ++i) {
    auto& peer = device.peers[i];
    peers[i].setPublicKey(netlink::toText(peer.publicKey));
    if (peer.endpoint) peers[i].setEndpoint(peer.endpoint->toString());
    peers[i].setPersistentKeepaliveInterval(peer.keepalive);
    kj::Vector<kj::String> networks;
    for (auto& network : peer.allowed) networks.add(network.toString());
    fillTexts(peers[i].initAllowedIPs(networks.size()), networks);
  }
}

void fillLink(rpc::LinkStatusSpec::Builder spec, const Observed& observed, const Link& link) {
  spec.setIndex(link.index);
  spec.setType(linkTypeName(link.type));
  spec.setKind(link.kind);
  spec.setHardwareAddress(hardwareText(link.hardwareAddress));
  spec.setBroadcastAddress(hardwareText(link.broadcastAddress));
  spec.setMtu(link.mtu);
  spec.setQueueDiscipline(link.queueDiscipline);
  auto flags = flagNames(link.flags);
  fillTexts(spec.initFlags(flags.size()), flags);
  spec.setOperationalState(stateName(link.operState));
  spec.setLinkState(link.up() && link.carrier);
  spec.setLinkIndex(link.parent);
  spec.setMasterIndex(link.master);
  spec.setMemberKind(link.memberKind);
  spec.setLogical(link.group == kMark);
  spec.setPermanentAddress(hardwareText(link.permanentAddress));
  KJ_IF_MAYBE (hardware, observed.hardware.find(link.index)) {
    spec.setDriver(hardware->driver);
    spec.setBusPath(hardware->busPath);
    spec.setPciID(hardware->pciId);
  }
  if (link.vlan) fillVlan(spec.initVlan(), *link.vlan);
  if (link.bond) fillBondOf(spec.initBondMaster(), observed, link);
  if (link.bondMember) fillMember(spec.initBondMember(), observed, link);
  if (link.bridge) {
    spec.initBridgeMaster().setStp(link.bridge->stp.value_or(false));
    spec.getBridgeMaster().setVlanFiltering(link.bridge->vlanFiltering.value_or(false));
  }
  if (link.vrfTable) spec.initVrfMaster().setTable(netlink::tableName(*link.vrfTable));
  KJ_IF_MAYBE (peer, observed.link(link.kind == "veth" ? link.parent : 0)) {
    bool pair = peer->kind == "veth" && peer->parent == link.index;  // not in another namespace
    if (pair) spec.initVeth().setPeerName(peer->name);
  }
  for (auto& tunnel : observed.tunnels) {
    if (tunnel.link == link.index) fillTunnel(spec.initWireguard(), tunnel.device);
  }
}

}  // namespace

kj::Vector<kj::StringPtr> flagNames(unsigned flags) {
  constexpr NamedBit kNames[] = {{IFF_UP, "UP"_kj},
                                 {IFF_BROADCAST, "BROADCAST"_kj},
                                 {IFF_LOOPBACK, "LOOPBACK"_kj},
                                 {IFF_POINTOPOINT, "POINTTOPOINT"_kj},
                                 {IFF_MULTICAST, "MULTICAST"_kj}};
  return namesOf(flags, kNames);
}

Records linkStatuses(const Observed& observed) {
  Records records;
  for (auto& link : observed.links) {
    insert<rpc::LinkStatusSpec>(
        records, kj::str(link.name),
        [&](rpc::LinkStatusSpec::Builder spec) { fillLink(spec, observed, link); });
  }
  return records;
}

}  // namespace talos::networkd
