// Documents of links: they add items to machine.network.interfaces. Several items for one link add
// up, so each document is an item.

#include <linux/rtnetlink.h>

#include <map>
#include <string>
#include <vector>

#include "common/config/documents/document-reader.h"
#include "common/config/rules/config-values.h"
#include "common/config/rules/link-selector.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

constexpr auto kInterfaces = "machine.network.interfaces"_kj;
constexpr uint32_t kDocumentRouteMetric = 1024;
constexpr auto kKeepsAddress = "this system does not set the hardware address of a link"_kj;

bool isUnspecified(kj::StringPtr text) {
  KJ_IF_MAYBE (address, Ip::parse(text)) return address->isAny();
  return false;
}

// Takes out of an entry of the main document, or of a VLAN in it, what a document's entry for the
// same link sets: of the entries for a link, the first counts.
template <typename Builder>
void giveWay(Builder old, Interface::Reader added) {
  if (added.getMtu() != 0) old.setMtu(0);
  if (!old.getDhcp() || !added.getDhcp()) return;
  auto from = added.getDhcpOptions();
  auto to = old.getDhcpOptions();
  bool ipv4 = to.getIpv4(), ipv6 = to.getIpv6();
  if (ipv4 && ipv6) {
    // The old options stay those of the other family.
    to.setIpv4(!from.getIpv4());
    to.setIpv6(!from.getIpv6());
  } else if (from.getIpv6() ? ipv6 : ipv4) {
    to.setRouteMetric(from.getRouteMetric());
    to.setIgnoreHostname(from.getIgnoreHostname());
    if (from.getIpv6()) to.setDuidv6(from.getDuidv6());
  }
}

// An entry of the main document, or a VLAN in it.
struct MainEntry {
  unsigned entry;
  kj::Maybe<unsigned> vlan;
};

// Lets the entries before `first` give way to the others, which are of documents.
void giveWay(capnp::List<Interface>::Builder entries, unsigned first) {
  std::map<std::string, std::vector<MainEntry>> old;  // by the name of the link
  auto read = entries.asReader();
  for (unsigned i = 0; i < first; ++i) {
    std::string name = read[i].getInterface().cStr();
    if (name.empty()) continue;
    old[name].push_back(MainEntry{i, nullptr});
    auto vlans = read[i].getVlans();
    for (unsigned j = 0; j < vlans.size(); ++j) {
      old[name + "." + std::to_string(vlans[j].getVlanId())].push_back(MainEntry{i, j});
    }
  }
  for (unsigned i = first; i < read.size(); ++i) {
    auto found = old.find(read[i].getInterface().cStr());
    if (found == old.end()) continue;
    for (auto& other : found->second) {
      KJ_IF_MAYBE (vlan, other.vlan) {
        giveWay(entries[other.entry].getVlans()[*vlan], read[i]);
      } else {
        giveWay(entries[other.entry], read[i]);
      }
    }
  }
}

}  // namespace

LinkDocuments::LinkDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder),
      view(view),
      interfaces(view.asReader().getMachine().getNetwork().getInterfaces().size()),
      aliases(0) {}

void LinkDocuments::dropSince(Mark mark) {
  interfaces.keepFirst(mark.interfaces);
  aliases.keepFirst(mark.aliases);
}

void LinkDocuments::write() {
  auto network = view.asReader().getMachine().getNetwork();
  auto before = network.getInterfaces().size();
  interfaces.write(network.getInterfaces(), [&](unsigned size) {
    return view.getMachine().getNetwork().initInterfaces(size);
  });
  if (interfaces.size() > 0) giveWay(view.getMachine().getNetwork().getInterfaces(), before);
  aliases.write(network.getLinkAliases(), [&](unsigned size) {
    return view.getMachine().getNetwork().initLinkAliases(size);
  });
}

void LinkDocuments::addresses(Document& document, kj::StringPtr prefix,
                              capnp::List<document::LinkAddress>::Reader list,
                              Interface::Builder out, kj::StringPtr path) {
  if (list.size() == 0) return;
  auto texts = out.initAddresses(list.size());
  for (auto i : kj::indices(list)) {
    auto key = kj::str(prefix, "addresses[", i, "]");
    auto text = list[i].getAddress();
    KJ_IF_MAYBE (network, Prefix::parse(text)) {
      if (network->address.isAny()) {
        decoder.report(document, kj::str(key, ".address"),
                       kj::str(text, " is not the address of a link"), "for example 192.0.2.7/24");
      }
    } else {
      decoder.report(document, kj::str(key, ".address"),
                     kj::str(jsonString(text), " is not a valid address with a prefix length"),
                     "for example 192.0.2.7/24");
    }
    decoder.refuse(document, kj::str(key, ".routePriority"),
                   "this system does not set the metric of the route of an address", "remove it");
    texts.set(i, text);
    decoder.from(document, kj::str(key, ".address"), kj::str(path, ".addresses[", i, "]"));
  }
}

void LinkDocuments::route(Document& document, kj::StringPtr key, document::LinkRoute::Reader given,
                          Route::Builder out, kj::StringPtr path) {
  kj::StringPtr destination = given.getDestination(), gateway = given.getGateway();
  auto at = [&](kj::StringPtr name) { return kj::str(key, ".", name); };
  KJ_IF_MAYBE (prefix, Prefix::parse(destination)) {
    if (prefix->address.isAny() && prefix->length == 0) {
      decoder.report(document, at("destination"), kj::str(destination, " is the default route"),
                     "leave destination out");
    }
  } else if (destination.size() > 0) {
    decoder.report(document, at("destination"),
                   kj::str(jsonString(destination), " is not a valid network"),
                   "for example 10.0.0.0/8");
  }
  const std::pair<kj::StringPtr, kj::StringPtr> hops[] = {{"gateway"_kj, gateway},
                                                          {"source"_kj, given.getSource()}};
  for (auto& [name, text] : hops) {
    if (text.size() == 0) continue;
    if (Ip::parse(text) == nullptr || isUnspecified(text)) {
      decoder.report(document, at(name),
                     kj::str(jsonString(text), " is not the address of a machine"),
                     "for example 192.0.2.1");
    }
  }
  KJ_IF_MAYBE (table, routingTable(given.getTable())) {
    if (*table != RT_TABLE_MAIN) out.setTable(*table);
  } else {
    decoder.report(document, at("table"),
                   kj::str(jsonString(given.getTable()), " is not a table of routes"), kTableForm);
  }
  KJ_IF_MAYBE (address, Ip::parse(gateway)) {
    if (destination.size() == 0 && address->family() == AF_INET6) destination = "::/0"_kj;
  }
  out.setNetwork(destination.size() == 0 ? "0.0.0.0/0"_kj : destination);
  out.setGateway(gateway);
  out.setSource(given.getSource());
  out.setMetric(given.getMetric() == 0 ? kDocumentRouteMetric : given.getMetric());
  out.setMtu(given.getMtu());
  decoder.from(document, key, path);
  decoder.from(document, given.getDestination().size() > 0 ? at("destination") : kj::str(key),
               kj::str(path, ".network"));
}

void LinkDocuments::routes(Document& document, kj::StringPtr prefix,
                           capnp::List<document::LinkRoute>::Reader list, Interface::Builder out,
                           kj::StringPtr path) {
  if (list.size() == 0) return;
  auto items = out.initRoutes(list.size());
  for (auto i : kj::indices(list)) {
    route(document, kj::str(prefix, "routes[", i, "]"), list[i], items[i],
          kj::str(path, ".routes[", i, "]"));
  }
}

template <typename Reader>
Interface::Builder LinkDocuments::linkOf(Document& document, Reader link, kj::String& path,
                                         kj::StringPtr prefix) {
  auto at = [&](kj::StringPtr key) { return kj::str(prefix, key); };
  auto entry = interfaces.add(kInterfaces, path);
  auto [other, added] = links.emplace(link.getName().cStr(), document.label.cStr());
  if (!added) {
    decoder.report(document, at("name"), kj::str(other->second.c_str(), " describes the same link"),
                   "one document describes a link");
  }
  entry.setInterface(link.getName());
  entry.setMtu(link.getMtu());
  if (!link.getUp()) {
    decoder.report(document, at("up"), kj::str("this system does not set a link down"),
                   "remove it");
  }
  decoder.refuse(document, at("multicast"), "this system does not set this flag of a link",
                 "remove it");
  addresses(document, prefix, link.getAddresses(), entry, path);
  routes(document, prefix, link.getRoutes(), entry, path);
  decoder.from(document, prefix.size() > 0 ? "peer"_kj : ""_kj, path);
  decoder.from(document, at("name"), kj::str(path, ".interface"));
  if (prefix.size() > 0) decoder.from(document, at("mtu"), kj::str(path, ".mtu"));
  return entry;
}

void LinkDocuments::link(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::LinkConfig>(document)) {
    kj::String path;
    linkOf(document, *d, path);
  }
}

void LinkDocuments::alias(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::LinkAliasConfig>(document)) {
    auto name = d->getName();
    if (name.findFirst('%') != nullptr) {
      return decoder.report(document, "name", kj::str("this system has no numbered aliases"),
                            "write one document for each link");
    }
    if (!isLinkName(name)) {
      return decoder.report(document, "name",
                            kj::str(jsonString(name), " is not a valid link name"),
                            "use 1 to 15 characters without /, : and blanks");
    }
    auto selector = parseLinkSelector(d->getSelector().getMatch());
    if (selector.problem.size() > 0) {
      return decoder.report(document, "selector.match", kj::mv(selector.problem),
                            kLinkSelectorForm);
    }
    kj::String path;
    auto out = aliases.add("machine.network.linkAliases", path);
    out.setName(name);
    auto list = out.initSelectors(static_cast<unsigned>(selector.any.size()));
    for (auto i : kj::indices(list)) {
      auto& one = selector.any[i];
      list[i].setBusPath(one.busPath);
      list[i].setHardwareAddr(one.hardwareAddr);
      list[i].setPermanentAddr(one.permanentAddr);
      list[i].setPciID(one.pciId);
      list[i].setDriver(one.driver);
      list[i].setPhysical(true);
    }
  }
}

void LinkDocuments::dummy(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::DummyLinkConfig>(document)) {
    kj::String path;
    linkOf(document, *d, path).setDummy(true);
    decoder.refuse(document, "hardwareAddr", kKeepsAddress, "remove it");
  }
}

void LinkDocuments::vlan(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::VLANConfig>(document)) {
    kj::String path;
    auto tag = linkOf(document, *d, path).initTaggedOn();
    auto mode = d->getVlanMode();
    if (mode.size() > 0 && mode != "802.1q" && mode != "802.1ad") {
      decoder.report(document, "vlanMode", kj::str(jsonString(mode), " is not a protocol of VLANs"),
                     "use 802.1q or 802.1ad");
    }
    if (d->getVlanID() == 0 || d->getVlanID() > 4094) {
      decoder.report(document, "vlanID", kj::str(d->getVlanID(), " is not a valid VLAN ID"),
                     "must be 1 to 4094");
    }
    if (!isLinkName(d->getParent())) {
      decoder.report(document, "parent",
                     kj::str(jsonString(d->getParent()), " is not a valid link name"),
                     "use the name of a link, or of a LinkAliasConfig");
    }
    tag.setParent(d->getParent());
    tag.setVlanId(d->getVlanID());
    tag.setProtocol(mode.size() == 0 ? "802.1q"_kj : kj::StringPtr(mode));
    decoder.from(document, "parent", kj::str(path, ".taggedOn.parent"));
    decoder.from(document, "vlanID", kj::str(path, ".taggedOn.vlanId"));
  }
}

void LinkDocuments::bridge(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::BridgeConfig>(document)) {
    kj::String path;
    auto out = linkOf(document, *d, path).initBridge();
    decoder.refuse(document, "hardwareAddr", kKeepsAddress, "remove it");
    out.setInterfaces(d->getLinks());
    out.initStp().setEnabled(d->getStp().getEnabled());
    out.initVlan().setVlanFiltering(d->getVlan().getFiltering());
    decoder.from(document, "links", kj::str(path, ".bridge.interfaces"));
    decoder.from(document, "", kj::str(path, ".bridge"));
  }
}

void LinkDocuments::bond(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::BondConfig>(document)) {
    kj::String path;
    auto out = linkOf(document, *d, path).initBond();
    decoder.refuse(document, "hardwareAddr", kKeepsAddress, "remove it");
    for (auto key : {"nsIp6Targets"_kj, "missedMax"_kj}) {
      decoder.refuse(document, key, "this system does not set this option of a bond", "remove it");
    }
    if (d->getAdLACPActive().size() > 0 && d->getAdLACPActive() != "on") {
      decoder.report(document, "adLACPActive", kj::str("this system sends LACP packets always"),
                     "remove it");
    }
    if (d->getLinks().size() == 0) {
      decoder.report(document, "links", kj::str("a bond needs a link"), "add one");
    }
    out.setInterfaces(d->getLinks());
    out.setMode(d->getBondMode());
    out.setMiimon(d->getMiimon());
    out.setUpdelay(d->getUpdelay());
    out.setDowndelay(d->getDowndelay());
    out.setUseCarrier(d->getUseCarrier());
    out.setXmitHashPolicy(d->getXmitHashPolicy());
    out.setArpInterval(d->getArpInterval());
    out.setArpIPTarget(d->getArpIpTargets());
    out.setArpValidate(d->getArpValidate());
    out.setArpAllTargets(d->getArpAllTargets());
    out.setLacpRate(d->getLacpRate());
    out.setFailOverMac(d->getFailOverMac());
    out.setAdSelect(d->getAdSelect());
    out.setAdActorSysPrio(d->getAdActorSysPrio());
    out.setAdUserPortKey(d->getAdUserPortKey());
    out.setPrimaryReselect(d->getPrimaryReselect());
    out.setResendIgmp(d->getResendIGMP());
    out.setMinLinks(d->getMinLinks());
    out.setLpInterval(d->getLpInterval());
    out.setPacketsPerSlave(d->getPacketsPerSlave());
    out.setNumPeerNotif(d->getNumPeerNotif());
    out.setTlbDynamicLb(d->getTlbLogicalLb());
    out.setAllSlavesActive(d->getAllSlavesActive());
    out.setPeerNotifyDelay(d->getPeerNotifDelay());
    // Keys whose names differ.
    auto under = kj::str(path, ".bond");
    decoder.from(document, "", under);
    decoder.from(document, "links", kj::str(under, ".interfaces"));
    decoder.from(document, "bondMode", kj::str(under, ".mode"));
    decoder.from(document, "arpIpTargets", kj::str(under, ".arpIPTarget"));
    decoder.from(document, "resendIGMP", kj::str(under, ".resendIgmp"));
    decoder.from(document, "tlbLogicalLb", kj::str(under, ".tlbDynamicLb"));
    decoder.from(document, "peerNotifDelay", kj::str(under, ".peerNotifyDelay"));
  }
}

void LinkDocuments::vrf(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::VRFConfig>(document)) {
    kj::String path;
    auto out = linkOf(document, *d, path).initVrf();
    decoder.refuse(document, "hardwareAddr", kKeepsAddress, "remove it");
    uint32_t table = routingTable(d->getTable()).orDefault(0);
    if (table == 0 || table == RT_TABLE_MAIN || table == RT_TABLE_LOCAL ||
        table == RT_TABLE_DEFAULT) {
      decoder.report(document, "table",
                     kj::str(jsonString(d->getTable()), " cannot be the table of a VRF"),
                     "use 1 to 252");
    }
    out.setInterfaces(d->getLinks());
    out.setTable(table);
    decoder.from(document, "links", kj::str(path, ".vrf.interfaces"));
    decoder.from(document, "", kj::str(path, ".vrf"));
  }
}

void LinkDocuments::veth(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::VethConfig>(document)) {
    auto peer = d->getPeer();
    const std::pair<kj::StringPtr, kj::StringPtr> ends[] = {{"name"_kj, d->getName()},
                                                            {"peer.name"_kj, peer.getName()}};
    for (auto& [key, name] : ends) {
      if (isLinkName(name)) continue;
      decoder.report(document, key, kj::str(jsonString(name), " is not a valid link name"),
                     "use 1 to 15 characters without /, : and blanks");
    }
    if (d->getName() == peer.getName()) {
      return decoder.report(document, "peer.name", kj::str("a link cannot be its own peer"),
                            "use another name");
    }
    kj::String path;
    linkOf(document, *d, path).initVeth().setPeer(peer.getName());
    linkOf(document, peer, path, "peer.").initVeth().setPeer(d->getName());
  }
}

void LinkDocuments::wireguard(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::WireguardConfig>(document)) {
    kj::String path;
    auto out = linkOf(document, *d, path).initWireguard();
    out.setPrivateKey(d->getPrivateKey());
    out.setListenPort(d->getListenPort());
    out.setFirewallMark(d->getFirewallMark());
    auto peers = out.initPeers(d->getPeers().size());
    for (auto i : kj::indices(peers)) {
      auto peer = d->getPeers()[i];
      decoder.refuse(document, kj::str("peers[", i, "].presharedKey"),
                     "this system does not know preshared keys", "remove it here and at the peer");
      peers[i].setPublicKey(peer.getPublicKey());
      peers[i].setEndpoint(peer.getEndpoint());
      peers[i].setPersistentKeepaliveInterval(peer.getPersistentKeepaliveInterval());
      peers[i].setAllowedIPs(peer.getAllowedIPs());
    }
    decoder.from(document, "", kj::str(path, ".wireguard"));
  }
}

template <typename Reader>
void LinkDocuments::dhcp(Document& document, Reader settings, bool ipv6) {
  auto identifier = settings.getClientIdentifier();
  bool byDuid = ipv6 && identifier == "duid";
  if (identifier.size() > 0 && identifier != "mac" && !byDuid) {
    decoder.report(document, "clientIdentifier",
                   ipv6 ? kj::str("this system identifies itself by its hardware address or a DUID")
                        : kj::str("this system identifies itself by its hardware address"),
                   ipv6 ? "use mac or duid" : "use mac");
  }
  if (byDuid && settings.getDuidRaw().size() == 0) {
    decoder.report(document, "duidRaw", kj::str("the DUID is missing"), kDuidForm);
  } else if (!byDuid) {
    decoder.refuse(document, "duidRaw",
                   ipv6 ? "clientIdentifier is not duid"_kj
                        : "this system identifies itself by its hardware address"_kj,
                   ipv6 ? "set it to duid, or remove duidRaw"_kj : "remove it"_kj);
  }
  kj::String path;
  auto out = interfaces.add(kInterfaces, path);
  out.setInterface(settings.getName());
  out.setDhcp(true);
  auto options = out.initDhcpOptions();
  options.setIpv4(!ipv6);
  options.setIpv6(ipv6);
  options.setRouteMetric(settings.getRouteMetric());
  options.setIgnoreHostname(settings.getIgnoreHostname());
  if (byDuid) options.setDuidv6(settings.getDuidRaw());
  decoder.from(document, "", path);
  decoder.from(document, "", kj::str(path, ".dhcpOptions"));
  decoder.from(document, "duidRaw", kj::str(path, ".dhcpOptions.duidv6"));
  decoder.from(document, "name", kj::str(path, ".interface"));
}

void LinkDocuments::dhcp4(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::DHCPv4Config>(document)) {
    if (d->getIgnoreRoutes()) {
      decoder.report(document, "ignoreRoutes", kj::str("this system uses the routes of a lease"),
                     "remove it, or set routeMetric");
    }
    dhcp(document, *d, false);
  }
}

void LinkDocuments::dhcp6(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::DHCPv6Config>(document)) dhcp(document, *d, true);
}

template <typename Reader>
kj::Maybe<Vip::Builder> LinkDocuments::shared(Document& document, Reader settings,
                                              kj::String& path) {
  if (!isControlPlane(view.getMachine().getType())) {
    decoder.report(document, "", kj::str("this has no effect on a worker"),
                   "remove it from the configs of workers", Problem::Severity::kWarning);
    return nullptr;
  }
  auto out = interfaces.add(kInterfaces, path);
  out.setInterface(settings.getLink());
  out.setSharedOnly(true);
  auto vip = out.initVip();
  vip.setIp(settings.getName());
  decoder.from(document, "", path);
  decoder.from(document, "link", kj::str(path, ".interface"));
  decoder.from(document, "", kj::str(path, ".vip"));
  decoder.from(document, "name", kj::str(path, ".vip.ip"));
  return vip;
}

void LinkDocuments::sharedAddress(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::Layer2VIPConfig>(document)) {
    kj::String path;
    shared(document, *d, path);
  }
}

void LinkDocuments::hcloudAddress(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::HCloudVIPConfig>(document)) {
    kj::String path;
    KJ_IF_MAYBE (vip, shared(document, *d, path)) {
      vip->initHcloud().setApiToken(d->getApiToken());
      decoder.from(document, "", kj::str(path, ".vip.hcloud"));
      decoder.from(document, "apiToken", kj::str(path, ".vip.hcloud.apiToken"));
    }
  }
}

}  // namespace talos::config
