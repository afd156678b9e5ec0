#include "machined/platforms/readers/cloud-network.h"

namespace talos::platforms {
namespace {

// Returns the value of the first existing key.
Value firstOf(Value mapping, kj::ArrayPtr<const kj::StringPtr> keys) {
  for (auto key : keys) {
    if (mapping[key].exists()) return mapping[key];
  }
  return {};
}

void readRouteV1(Value entry, Interface& link, PlatformFacts& facts) {
  auto where = kj::str(link.name, ": routes");
  checkKeys(where, entry,
            {"destination", "network", "address", "netmask", "prefix", "gateway", "metric"}, facts);
  addCloudRoute(link,
                {.destination = firstOf(entry, {"destination", "network", "address"}).textOrShape(),
                 .mask = firstOf(entry, {"netmask", "prefix"}).textOrShape(),
                 .gateway = entry["gateway"].textOrShape(),
                 .metric = numberOf(where, entry, "metric", facts)},
                facts);
}

void readSubnetV1(Value subnet, Interface& link, PlatformFacts& facts) {
  // The broadcast address is derived from the address.
  checkKeys(link.name, subnet,
            {"type", "control", "address", "netmask", "broadcast", "gateway", "dns_nameservers",
             "routes"},
            facts);
  auto control = subnet["control"].textOrShape();
  if (control.size() > 0 && control != "auto") {
    facts.unsupported(link.name, kj::str("control \"", control, "\""));
  }
  auto type = subnet["type"].textOrShape();
  if (type == "dhcp" || type == "dhcp4") {
    link.dhcp4 = true;
  } else if (type == "dhcp6" || type == "ipv6_dhcpv6-stateful") {
    link.dhcp6 = true;
  } else if (type == "static" || type == "static6") {
    facts.addAddress(link, subnet["address"].textOrShape(), subnet["netmask"].textOrShape());
    facts.addDefaultRoute(link, subnet["gateway"].textOrShape());
  } else if (type != "manual" && type != "ipv6_slaac") {
    facts.unsupported(link.name, kj::str("a subnet of type \"", type, "\""));
  }
  for (auto route : subnet["routes"].items()) readRouteV1(route, link, facts);
  for (auto server : subnet["dns_nameservers"].items()) facts.resolver(server.textOrShape());
}

void readSubnets(Value entry, Interface& link, PlatformFacts& facts) {
  facts.setMtu(link, entry["mtu"].textOrShape());
  for (auto subnet : entry["subnets"].items()) readSubnetV1(subnet, link, facts);
}

// Returns the hardware address that another entry of the list has by this name, or the name itself.
kj::String memberV1(Value config, kj::StringPtr name) {
  for (auto entry : config.items()) {
    if (entry["name"].text() != name) continue;
    KJ_IF_MAYBE (mac, macOf(entry["mac_address"].text())) {
      if (entry["type"].text() == "physical") return kj::mv(*mac);
    }
  }
  return kj::str(name);
}

void readPhysicalV1(Value entry, PlatformFacts& facts) {
  auto name = entry["name"].text();
  checkKeys(name, entry, {"type", "name", "mac_address", "mtu", "subnets"}, facts);
  readSubnets(entry, facts.interfaceOf(entry["mac_address"].textOrShape(), name), facts);
}

void readBondV1(Value entry, Value config, PlatformFacts& facts) {
  auto name = entry["name"].text();
  checkKeys(name, entry, {"type", "name", "bond_interfaces", "params", "mtu", "subnets"}, facts);
  auto& link = facts.interfaceOf("", name);
  auto& bond = link.bond.emplace();
  for (auto member : entry["bond_interfaces"].items()) {
    if (member.text().size() > 0) {
      bond.members.add(memberV1(config, member.text()));
    } else {
      facts.invalid(name, member.textOrShape(), "interface");
    }
  }
  readBondParameters(name, entry["params"],
                     {.mode = "bond-mode",
                      .lacpRate = "bond-lacp-rate",
                      .hashPolicy = "bond-xmit-hash-policy",
                      .miimon = "bond-miimon",
                      .upDelay = "bond-updelay",
                      .downDelay = "bond-downdelay"},
                     bond, facts);
  readSubnets(entry, link, facts);
}

void readVlanV1(Value entry, Value config, PlatformFacts& facts) {
  auto name = entry["name"].text();
  checkKeys(name, entry, {"type", "name", "vlan_id", "vlan_link", "mtu", "subnets"}, facts);
  auto id = KJ_UNWRAP_OR_RETURN(facts.vlanIdOf(name, entry["vlan_id"].textOrShape()));
  auto below = entry["vlan_link"].text();
  if (below.size() == 0) return facts.invalid(name, below, "vlan_link");
  auto& parent = facts.interfaceOf(memberV1(config, below));
  readSubnets(entry, parent.vlans.add(id, name).link, facts);
}

void readNameserverV1(Value entry, PlatformFacts& facts) {
  checkKeys("network-config: nameserver", entry, {"type", "address"}, facts);
  for (auto server : entry["address"].items()) facts.resolver(server.textOrShape());
}

}  // namespace

void readVersion1(Value network, PlatformFacts& facts) {
  checkKeys(kNetworkConfig, network, {"version", "config"}, facts);
  auto config = network["config"];
  for (auto entry : config.items()) {
    auto type = entry["type"].textOrShape();
    if (type == "physical") {
      readPhysicalV1(entry, facts);
    } else if (type == "bond") {
      readBondV1(entry, config, facts);
    } else if (type == "vlan") {
      readVlanV1(entry, config, facts);
    } else if (type == "nameserver") {
      readNameserverV1(entry, facts);
    } else {
      facts.unsupported(kNetworkConfig, kj::str("an entry of type \"", type, "\""));
    }
  }
}

}  // namespace talos::platforms
