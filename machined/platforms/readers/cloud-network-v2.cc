#include "machined/platforms/readers/cloud-network.h"

namespace talos::platforms {
namespace {

unsigned metricOf(const Ip& gateway) {
  return gateway.family() == AF_INET6 ? kRouteMetric6 : kRouteMetric;
}

kj::Maybe<Prefix> destinationOf(kj::StringPtr text, const Ip& gateway) {
  if (text == "default") return Prefix::all(gateway.family());
  KJ_IF_MAYBE (prefix, prefixOf(text)) return prefix->masked();
  return nullptr;
}

void readRoute(kj::StringPtr name, Value entry, Interface& link, PlatformFacts& facts) {
  auto to = entry["to"].text();
  KJ_IF_MAYBE (gateway, Ip::parse(entry["via"].text())) {
    KJ_IF_MAYBE (destination, destinationOf(to, *gateway)) {
      auto metric = entry["metric"].number();
      link.routes.add(Route{.destination = *destination,
                            .gateway = *gateway,
                            .metric = metric == 0 ? metricOf(*gateway) : metric,
                            .onlink = entry["on-link"].flag()});
      return;
    }
  }
  facts.problem(name, ": the route to \"", to,
                "\" needs a destination and the address of a gateway in "
                "\"via\"; it is left out");
}

void readLink(kj::StringPtr name, Value entry, Interface& link, PlatformFacts& facts) {
  link.mtu = entry["mtu"].number();
  link.dhcp4 = entry["dhcp4"].flag();
  link.dhcp6 = entry["dhcp6"].flag();
  auto metric = entry[link.dhcp4 ? "dhcp4-overrides"_kj : "dhcp6-overrides"_kj]["route-metric"];
  if (metric.number() > 0) link.dhcpMetric = metric.number();
  for (auto address : entry["addresses"].items()) {
    KJ_IF_MAYBE (prefix, prefixOf(address.text())) {
      link.addresses.add(*prefix);
    } else {
      facts.problem(name, ": \"", address.text(), "\" is no address; it is left out");
    }
  }
  for (auto key : {"gateway4"_kj, "gateway6"_kj}) {
    KJ_IF_MAYBE (gateway, Ip::parse(entry[key].text())) {
      link.defaultRoute(*gateway, metricOf(*gateway));
    }
  }
  for (auto route : entry["routes"].items()) readRoute(name, route, link, facts);
  for (auto server : entry["nameservers"]["addresses"].items()) facts.resolver(server.text());
}

// Of an id of ethernets: the hardware address that it matches, or its name.
struct Match {
  kj::StringPtr mac, name;
};
Match matchOf(Value network, kj::StringPtr id) {
  auto entry = network["ethernets"][id];
  auto renamed = entry["set-name"].text();
  return {entry["match"]["macaddress"].text(), renamed.size() > 0 ? renamed : id};
}

kj::String memberV2(Value network, kj::StringPtr id) {
  auto match = matchOf(network, id);
  return macOf(match.mac).orDefault(kj::str(match.name));
}

void readBondV2(Value network, kj::StringPtr name, Value entry, PlatformFacts& facts) {
  auto& link = facts.interfaceOf("", name);
  auto& bond = link.bond.emplace();
  for (auto member : entry["interfaces"].items()) {
    bond.members.add(memberV2(network, member.text()));
  }
  auto parameters = entry["parameters"];
  auto set = [&](kj::StringPtr key, auto& value) {
    if (setEnum(parameters[key].text(), value)) return;
    facts.problem(name, ": ", key, " \"", parameters[key].text(), "\" is unknown; it is left out");
  };
  set("mode", bond.mode);
  set("lacp-rate", bond.lacpRate);
  set("transmit-hash-policy", bond.hashPolicy);
  bond.miimon = parameters["mii-monitor-interval"].number();
  bond.upDelay = parameters["up-delay"].number();
  bond.downDelay = parameters["down-delay"].number();
  readLink(name, entry, link, facts);
}

void readVlanV2(Value network, kj::StringPtr name, Value entry, PlatformFacts& facts) {
  auto id = entry["id"].number();
  if (id > kLargestVlan || entry["id"].text().size() == 0) {
    facts.problem(name, ": \"", entry["id"].text(), "\" is no VLAN id; it is left out");
    return;
  }
  auto parent = memberV2(network, entry["link"].text());
  auto& vlan = facts.interfaceOf(parent, parent).vlans.add();
  vlan.id = id;
  readLink(name, entry, vlan.link, facts);
}

}  // namespace

void readVersion2(Value network, PlatformFacts& facts) {
  for (auto& [id, entry] : network["ethernets"].entries()) {
    auto match = matchOf(network, id);
    readLink(id, entry, facts.interfaceOf(match.mac, match.name), facts);
  }
  for (auto& [name, entry] : network["bonds"].entries()) readBondV2(network, name, entry, facts);
  for (auto& [name, entry] : network["vlans"].entries()) readVlanV2(network, name, entry, facts);
  for (auto& [key, entry] : network.entries()) {
    bool read = key == "version" || key == "renderer" || key == "ethernets" || key == "bonds" ||
                key == "vlans";
    if (!read) facts.problem("network-config: \"", key, "\" is left out");
  }
}

}  // namespace talos::platforms
