#include "common/text/texts.h"
#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

constexpr unsigned kBondDelay = 200;  // ms

constexpr kj::StringPtr kHardware[] = {"phy"_kj, "vif"_kj,       "ovs"_kj,   "bridge"_kj,
                                       "tap"_kj, "vhostuser"_kj, "hw_veb"_kj};

bool isHardware(kj::StringPtr text) {
  return contains(kHardware, text);
}

class Network {
 public:
  Network(Value root, PlatformFacts& facts) : root(root), facts(facts) {}

  void read() {
    unsigned bonds = 0;
    for (auto link : root["links"].items()) {
      if (link["type"].text() == "bond") readBond(link, kj::str("bond", bonds++));
    }
    for (auto network : root["networks"].items()) readNetwork(network);
    for (auto service : root["services"].items()) {
      if (service["type"].text() == "dns") facts.resolver(service["address"].text());
    }
  }

 private:
  Value root;
  PlatformFacts& facts;

  // Returns the number of a link among all links; nullptr if no link has this id.
  kj::Maybe<unsigned> indexOf(kj::StringPtr id) {
    unsigned index = 0;
    for (auto link : root["links"].items()) {
      if (id.size() > 0 && link["id"].text() == id) return index;
      ++index;
    }
    return nullptr;
  }

  kj::String memberOf(kj::StringPtr id) {
    auto index = indexOf(id).orDefault(0);
    auto link = root["links"].items()[index];
    return macOf(link["ethernet_mac_address"].text()).orDefault(kj::str("eth", index));
  }

  void readBond(Value link, kj::String name) {
    auto& made = facts.interfaceOf("", name);
    facts.setMtu(made, link["mtu"].textOrShape());
    auto& bond = made.bond.emplace();
    auto set = [&](kj::StringPtr key, auto& value) {
      auto text = link[key].textOrShape();
      if (!setEnum(text, value)) facts.invalid(name, text, key);
    };
    set("bond_mode", bond.mode);
    set("bond_xmit_hash_policy", bond.hashPolicy);
    bond.lacpRate = config::BondLacpRate::FAST;
    auto interval = link["bond_miimon"].textOrShape();
    KJ_IF_MAYBE (number, numberIn(interval, 0, kMostNumber)) {
      bond.miimon = *number;
    } else {
      if (interval.size() > 0) facts.invalid(name, interval, "bond_miimon");
    }
    if (bond.miimon > 0) bond.upDelay = bond.downDelay = kBondDelay / bond.miimon * bond.miimon;
    for (auto member : link["bond_links"].items()) {
      if (indexOf(member.text()) != nullptr) {
        bond.members.add(memberOf(member.text()));
      } else {
        facts.invalid(name, member.textOrShape(), "link");
      }
    }
  }

  static kj::String nameOf(Value network) { return kj::str("network ", network["id"].text()); }

  // Returns the link of a network; nullptr if a node cannot use its link.
  kj::Maybe<Interface&> linkOf(kj::StringPtr id) {
    auto index = KJ_UNWRAP_OR_RETURN(indexOf(id), nullptr);
    auto links = root["links"].items();
    auto link = links[index];
    auto type = link["type"].text();
    if (type == "bond") {
      unsigned bonds = 0;
      for (unsigned i = 0; i < index; ++i) bonds += links[i]["type"].text() == "bond";
      return facts.interfaceOf("", kj::str("bond", bonds));
    }
    if (type == "vlan") return vlanOf(link);
    if (!isHardware(type)) return nullptr;
    auto& made = facts.interfaceOf(link["ethernet_mac_address"].text(), kj::str("eth", index));
    facts.setMtu(made, link["mtu"].textOrShape());
    return made;
  }

  // A VLAN on a VLAN is left out.
  kj::Maybe<Interface&> vlanOf(Value link) {
    auto below = KJ_UNWRAP_OR_RETURN(indexOf(link["vlan_link"].text()), nullptr);
    if (root["links"].items()[below]["type"].text() == "vlan") return nullptr;
    auto name = link["id"].text();
    auto id = KJ_UNWRAP_OR_RETURN(facts.vlanIdOf(name, link["vlan_id"].textOrShape()), nullptr);
    KJ_IF_MAYBE (parent, linkOf(link["vlan_link"].text())) {
      for (auto& vlan : parent->vlans) {
        if (vlan.id == id) return vlan.link;
      }
      auto& vlan = parent->vlans.add(id, name);
      facts.setMtu(vlan.link, link["mtu"].textOrShape());
      return vlan.link;
    }
    return nullptr;
  }

  void readNetwork(Value network) {
    auto type = network["type"].text();
    KJ_IF_MAYBE (link, linkOf(network["link"].text())) {
      if (type == "ipv4_dhcp") {
        link->dhcp4 = true;
      } else if (type == "ipv6_dhcp" || type == "ipv6_dhcpv6-stateful" ||
                 type == "ipv6_dhcpv6-stateless") {
        link->dhcp6 = true;
      } else if (type == "ipv4" || type == "ipv6" || type == "ipv6_slaac") {
        readStatic(network, *link);
      } else {
        facts.unsupported(nameOf(network), kj::str("type \"", type, "\""));
      }
    } else {
      facts.problem(nameOf(network), ": there is no link \"", network["link"].text(),
                    "\" that a node can use; ignored");
    }
  }

  void readStatic(Value network, Interface& link) {
    auto added = facts.addAddress(link, network["ip_address"].textOrShape(),
                                  network["netmask"].textOrShape());
    if (added == nullptr) return;
    auto name = nameOf(network);
    KJ_IF_MAYBE (gateway, facts.gatewayOf(name, network["gateway"].textOrShape())) {
      addRoute(link, nullptr, *gateway);
    }
    for (auto route : network["routes"].items()) readRoute(route, name, link);
  }

  void readRoute(Value route, kj::StringPtr name, Interface& link) {
    auto to = route["network"].textOrShape();
    auto gateway = route["gateway"].textOrShape();
    if (gateway.size() == 0)
      return facts.invalid(name, gateway, kj::str("gateway to \"", to, "\""));
    KJ_IF_MAYBE (ip, facts.gatewayOf(name, gateway)) {
      auto destination = prefixOf(to, route["netmask"].textOrShape());
      if (destination == nullptr) return facts.invalid(name, to, "destination of a route");
      addRoute(link, destination, *ip);
    }
  }

  // A route without a destination, or to all destinations, is the default route, which is added
  // once.
  void addRoute(Interface& link, kj::Maybe<Prefix> destination, const Ip& gateway) {
    auto all = Prefix::all(gateway.family());
    auto to = destination.orDefault(all).masked();
    bool isDefault = to.length == 0;
    bool six = gateway.family() == AF_INET6;
    for (auto& other : link.routes()) {
      if (other.destination == to) return;
    }
    facts.addRoute(link, Route{isDefault ? all : to, gateway,
                               isDefault && six ? kRouteMetric6 : kRouteMetric});
  }
};

}  // namespace

void readOpenstack(const Answers& answers, PlatformFacts& facts) {
  if (answers.has("meta_data")) {
    Document document("meta_data.json", answers.bytes("meta_data"));
    auto root = document.root();
    facts.hostname = kj::str(root["hostname"].text());
    facts.instanceId = kj::str(root["uuid"].text());
    facts.zone = kj::str(root["availability_zone"].text());
    facts.instanceType = kj::str(root["instance_type"].text());
    facts.providerId = kj::str("openstack:///", facts.instanceId);
  }
  if (facts.instanceType.size() == 0) facts.instanceType = answers.line("instance-type");
  facts.external(answers.line("public-ipv4"));
  if (!answers.has("network_data")) return;
  Document document("network_data.json", answers.bytes("network_data"));
  Network(document.root(), facts).read();
}

}  // namespace talos::platforms
