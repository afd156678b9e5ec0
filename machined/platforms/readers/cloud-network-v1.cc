#include "machined/platforms/readers/cloud-network.h"

namespace talos::platforms {
namespace {

void readStaticV1(Value subnet, Interface& link, kj::StringPtr name, PlatformFacts& facts) {
  auto text = subnet["address"].text();
  KJ_IF_MAYBE (prefix, prefixOf(text, subnet["netmask"].text())) {
    link.addresses.add(*prefix);
  } else {
    facts.problem(name, ": \"", text, "\" is no address; it is left out");
  }
  KJ_IF_MAYBE (gateway, Ip::parse(subnet["gateway"].text())) {
    link.defaultRoute(*gateway, gateway->family() == AF_INET6 ? kRouteMetric6 : kRouteMetric);
  }
}

void readSubnets(Value entry, Interface& link, PlatformFacts& facts) {
  auto name = entry["name"].text();
  link.mtu = entry["mtu"].number();
  for (auto subnet : entry["subnets"].items()) {
    auto type = subnet["type"].text();
    if (type == "dhcp" || type == "dhcp4") {
      link.dhcp4 = true;
    } else if (type == "dhcp6" || type == "ipv6_dhcpv6-stateful") {
      link.dhcp6 = true;
    } else if (type == "static" || type == "static6") {
      readStaticV1(subnet, link, name, facts);
    } else if (type != "manual" && type != "ipv6_slaac") {
      facts.problem(name, ": subnets of type \"", type, "\" are left out");
    }
    for (auto server : subnet["dns_nameservers"].items()) facts.resolver(server.text());
  }
}

// The hardware address that another entry of the list has by this name, or the name itself.
kj::String memberV1(Value config, kj::StringPtr name) {
  for (auto entry : config.items()) {
    if (entry["name"].text() != name) continue;
    KJ_IF_MAYBE (mac, macOf(entry["mac_address"].text())) {
      if (entry["type"].text() == "physical") return kj::mv(*mac);
    }
  }
  return kj::str(name);
}

void readBondV1(Value entry, Value config, PlatformFacts& facts) {
  auto name = entry["name"].text();
  auto& link = facts.interfaceOf("", name);
  auto& bond = link.bond.emplace();
  for (auto member : entry["bond_interfaces"].items()) {
    bond.members.add(memberV1(config, member.text()));
  }
  auto params = entry["params"];
  auto set = [&](kj::StringPtr key, auto& value) {
    if (setEnum(params[key].text(), value)) return;
    facts.problem(name, ": ", key, " \"", params[key].text(), "\" is unknown; it is left out");
  };
  set("bond-mode", bond.mode);
  set("bond-lacp-rate", bond.lacpRate);
  set("bond-xmit-hash-policy", bond.hashPolicy);
  bond.miimon = params["bond-miimon"].number();
  bond.upDelay = params["up-delay"].number();
  bond.downDelay = params["down-delay"].number();
  readSubnets(entry, link, facts);
}

void readVlanV1(Value entry, Value config, PlatformFacts& facts) {
  auto id = entry["vlan_id"].number();
  if (id > kLargestVlan || entry["vlan_id"].text().size() == 0) {
    facts.problem(entry["name"].text(), ": \"", entry["vlan_id"].text(),
                  "\" is no VLAN id; it is left out");
    return;
  }
  auto parent = memberV1(config, entry["vlan_link"].text());
  auto& vlan = facts.interfaceOf(parent, parent).vlans.add();
  vlan.id = id;
  readSubnets(entry, vlan.link, facts);
}

}  // namespace

void readVersion1(Value network, PlatformFacts& facts) {
  auto config = network["config"];
  for (auto entry : config.items()) {
    auto type = entry["type"].text();
    if (type == "physical") {
      readSubnets(entry, facts.interfaceOf(entry["mac_address"].text(), entry["name"].text()),
                  facts);
    } else if (type == "bond") {
      readBondV1(entry, config, facts);
    } else if (type == "vlan") {
      readVlanV1(entry, config, facts);
    } else if (type == "nameserver") {
      for (auto server : entry["address"].items()) facts.resolver(server.text());
    } else {
      facts.problem("network-config: entries of type \"", type, "\" are left out");
    }
  }
}

}  // namespace talos::platforms
