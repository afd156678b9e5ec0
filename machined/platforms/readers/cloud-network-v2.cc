#include "machined/platforms/readers/cloud-network.h"

namespace talos::platforms {
namespace {

// The keys of links of all kinds. Whether a link is optional, and its renderer, make no difference.
constexpr kj::StringPtr kLinkKeys[] = {
    "mtu"_kj,      "dhcp4"_kj,   "dhcp6"_kj,       "dhcp4-overrides"_kj, "dhcp6-overrides"_kj,
    "gateway4"_kj, "routes"_kj,  "nameservers"_kj, "addresses"_kj,       "gateway6"_kj,
    "optional"_kj, "renderer"_kj};

void checkLinkKeys(kj::StringPtr name, Value entry, kj::ArrayPtr<const kj::StringPtr> more,
                   PlatformFacts& facts) {
  kj::Vector<kj::StringPtr> known;
  known.addAll(kj::ArrayPtr<const kj::StringPtr>(kLinkKeys));
  known.addAll(more);
  checkKeys(name, entry, known, facts);
}

void readRouteV2(Value entry, Interface& link, PlatformFacts& facts) {
  auto where = kj::str(link.name, ": routes");
  checkKeys(where, entry, {"to", "via", "metric", "on-link"}, facts);
  addCloudRoute(link,
                {.destination = entry["to"].textOrShape(),
                 .gateway = entry["via"].textOrShape(),
                 .metric = numberOf(where, entry, "metric", facts),
                 .onlink = flagOf(where, entry, "on-link", facts)},
                facts);
}

// Routes of both families have one metric.
void readDhcpMetric(Value entry, Interface& link, PlatformFacts& facts) {
  auto metricIn = [&](kj::StringPtr key) {
    auto where = kj::str(link.name, ": ", key);
    checkKeys(where, entry[key], {"route-metric"}, facts);
    return numberOf(where, entry[key], "route-metric", facts);
  };
  auto four = metricIn("dhcp4-overrides"), six = metricIn("dhcp6-overrides");
  auto metric = link.dhcp4 ? four : six;
  if (metric > 0) link.dhcpMetric = metric;
  bool differs = link.dhcp4 && link.dhcp6 && six > 0 && six != link.dhcpMetric;
  if (differs) facts.unsupported(link.name, "a route-metric of DHCPv6 other than that of DHCPv4");
}

void readLinkV2(Value entry, Interface& link, PlatformFacts& facts) {
  facts.setMtu(link, entry["mtu"].textOrShape());
  link.dhcp4 = flagOf(link.name, entry, "dhcp4", facts);
  link.dhcp6 = flagOf(link.name, entry, "dhcp6", facts);
  readDhcpMetric(entry, link, facts);
  for (auto address : entry["addresses"].items()) facts.addAddress(link, address.textOrShape());
  for (auto key : {"gateway4"_kj, "gateway6"_kj}) {
    facts.addDefaultRoute(link, entry[key].textOrShape());
  }
  for (auto route : entry["routes"].items()) readRouteV2(route, link, facts);
  auto servers = entry["nameservers"];
  checkKeys(kj::str(link.name, ": nameservers"), servers, {"addresses"}, facts);
  for (auto server : servers["addresses"].items()) facts.resolver(server.textOrShape());
}

// The hardware address that an id of ethernets matches, or its name.
struct Match {
  kj::StringPtr mac, name;
};

bool isPattern(kj::StringPtr name) {
  for (char c : name) {
    if (c == '*' || c == '?' || c == '[') return true;
  }
  return false;
}

// Finds a link by its hardware address or its whole name. If the entry selects the link by anything
// else, adds a problem and returns nullptr: a link with the id as its name is another link.
kj::Maybe<Match> matchOf(Value network, kj::StringPtr id, PlatformFacts& facts) {
  auto entry = network["ethernets"][id];
  auto match = entry["match"];
  auto renamed = entry["set-name"].text();
  auto where = kj::str(id, ": match");
  checkKeys(where, match, {"macaddress", "name", "driver"}, facts);
  auto mac = match["macaddress"].textOrShape(), name = match["name"].textOrShape();
  if (mac.size() > 0) {
    if (macOf(mac) != nullptr) return Match{mac, renamed.size() > 0 ? renamed : id};
    facts.invalid(where, mac, "hardware address");
    return nullptr;
  }
  if (match["driver"].exists() || isPattern(name)) {
    auto by = match["driver"].exists() ? kj::str("driver") : kj::str("the pattern \"", name, "\"");
    facts.problem(where, ": ", by, " is not supported; use macaddress or the name of one link; ",
                  id, " is ignored");
    return nullptr;
  }
  if (name.size() > 0) return Match{"", name};
  return Match{"", renamed.size() > 0 ? renamed : id};
}

// If an id of ethernets matches no link by itself, adds a problem and returns nullptr.
kj::Maybe<kj::String> memberV2(Value network, Value id, PlatformFacts& facts) {
  auto match = KJ_UNWRAP_OR_RETURN(matchOf(network, id.text(), facts), nullptr);
  return macOf(match.mac).orDefault(kj::str(match.name));
}

void readEthernetV2(Value network, kj::StringPtr id, Value entry, PlatformFacts& facts) {
  checkLinkKeys(id, entry, {"match", "set-name"}, facts);
  auto match = KJ_UNWRAP_OR_RETURN(matchOf(network, id, facts));
  readLinkV2(entry, facts.interfaceOf(match.mac, match.name), facts);
}

void readBondV2(Value network, kj::StringPtr name, Value entry, PlatformFacts& facts) {
  checkLinkKeys(name, entry, {"interfaces", "parameters"}, facts);
  auto& link = facts.interfaceOf("", name);
  auto& bond = link.bond.emplace();
  for (auto id : entry["interfaces"].items()) {
    if (id.text().size() == 0) {
      facts.invalid(name, id.textOrShape(), "interface");
    } else {
      KJ_IF_MAYBE (member, memberV2(network, id, facts)) bond.members.add(kj::mv(*member));
    }
  }
  readBondParameters(name, entry["parameters"],
                     {.mode = "mode",
                      .lacpRate = "lacp-rate",
                      .hashPolicy = "transmit-hash-policy",
                      .miimon = "mii-monitor-interval",
                      .upDelay = "up-delay",
                      .downDelay = "down-delay"},
                     bond, facts);
  readLinkV2(entry, link, facts);
}

void readVlanV2(Value network, kj::StringPtr name, Value entry, PlatformFacts& facts) {
  checkLinkKeys(name, entry, {"id", "link"}, facts);
  auto id = KJ_UNWRAP_OR_RETURN(facts.vlanIdOf(name, entry["id"].textOrShape()));
  if (entry["link"].text().size() == 0) return facts.invalid(name, "", "link");
  auto parent = KJ_UNWRAP_OR_RETURN(memberV2(network, entry["link"], facts));
  readLinkV2(entry, facts.interfaceOf(parent).vlans.add(id, name).link, facts);
}

}  // namespace

void readVersion2(Value network, PlatformFacts& facts) {
  checkKeys(kNetworkConfig, network, {"version", "renderer", "ethernets", "bonds", "vlans"}, facts);
  for (auto& [id, entry] : network["ethernets"].entries()) {
    readEthernetV2(network, id, entry, facts);
  }
  for (auto& [name, entry] : network["bonds"].entries()) readBondV2(network, name, entry, facts);
  for (auto& [name, entry] : network["vlans"].entries()) readVlanV2(network, name, entry, facts);
}

}  // namespace talos::platforms
