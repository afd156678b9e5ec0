// Readers of platforms whose metadata is one JSON document.
#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {

void readAkamai(const Answers& answers, PlatformFacts& facts) {
  Document document("instance", answers.bytes("instance"));
  auto root = document.root();
  facts.hostname = kj::str(root["label"].text());
  facts.region = kj::str(root["region"].text());
  facts.instanceType = kj::str(root["type"].text());
  facts.instanceId = kj::str(root["id"].text());
  facts.providerId = kj::str("linode://", facts.instanceId);
  if (!answers.has("network")) return;
  Document network("network", answers.bytes("network"));
  auto four = network.root()["ipv4"], six = network.root()["ipv6"];
  auto& link = facts.interfaceOf("", "eth0");
  // The default route comes from the lease.
  link.dhcp4 = true;
  auto add = [&](Value entry, bool isPublic) {
    KJ_IF_MAYBE (prefix, facts.addAddress(link, entry.textOrShape())) {
      if (isPublic) facts.external(prefix->address.toString());
    }
  };
  for (auto entry : four["public"].items()) add(entry, true);
  for (auto entry : four["private"].items()) add(entry, false);
  // Routers give the machine this address; ranges are routed to the machine, and are not addresses
  // of it.
  auto slaac = six["slaac"].textOrShape();
  KJ_IF_MAYBE (prefix, prefixOf(slaac)) {
    facts.external(prefix->address.toString());
  } else {
    if (slaac.size() > 0) facts.invalid(link.name, slaac, "address");
  }
}

namespace {

constexpr unsigned kDigitalOceanServerMetric = 512;

// Returns the address that was added; nullptr if there was no address.
kj::Maybe<Prefix> readDropletAddress(Value entry, kj::StringPtr maskKey, Interface& link,
                                     PlatformFacts& facts) {
  auto text = entry["ip_address"].textOrShape();
  if (text.size() == 0) return nullptr;
  return facts.addAddress(link, text, entry[maskKey].textOrShape());
}

void readPublic(Value entry, Interface& link, PlatformFacts& facts) {
  auto four = entry["ipv4"], six = entry["ipv6"];
  KJ_IF_MAYBE (prefix, readDropletAddress(four, "netmask", link, facts)) {
    facts.external(prefix->address.toString());
    KJ_IF_MAYBE (gateway, facts.gatewayOf(link.name, four["gateway"].textOrShape())) {
      facts.addDefaultRoute(link, *gateway, kRouteMetric);
      // Routes to the service, regardless of other default routes.
      facts.addRoute(link, Route{Prefix::host(Ip::require("169.254.169.254")), *gateway,
                                 kDigitalOceanServerMetric});
    }
  }
  readDropletAddress(entry["anchor_ipv4"], "netmask", link, facts);
  KJ_IF_MAYBE (prefix, readDropletAddress(six, "cidr", link, facts)) {
    facts.external(prefix->address.toString());
    facts.addDefaultRoute(link, six["gateway"].textOrShape());
  }
}

}  // namespace

void readDigitalOcean(const Answers& answers, PlatformFacts& facts) {
  Document document("metadata", answers.bytes("metadata"));
  auto root = document.root();
  facts.hostname = kj::str(root["hostname"].text());
  facts.region = kj::str(root["region"].text());
  facts.instanceId = kj::str(root["droplet_id"].text());
  facts.providerId = kj::str("digitalocean://", facts.instanceId);
  for (auto server : root["dns"]["nameservers"].items()) facts.resolver(server.text());
  unsigned index = 0;
  for (auto entry : root["interfaces"]["public"].items()) {
    readPublic(entry, facts.interfaceOf(entry["mac"].text(), kj::str("eth", index++)), facts);
  }
  index = 1;
  for (auto entry : root["interfaces"]["private"].items()) {
    auto& link = facts.interfaceOf(entry["mac"].text(), kj::str("eth", index++));
    readDropletAddress(entry["ipv4"], "netmask", link, facts);
  }
}

namespace {

constexpr unsigned kMonitorInterval = 100, kDelay = 200;  // ms

Bond& bondOf(Interface& link, unsigned mode) {
  KJ_IF_MAYBE (bond, link.bond) return *bond;
  auto& bond = link.bond.emplace();
  using Mode = config::BondMode;
  bond.mode = static_cast<Mode>(mode);
  for (auto hashing : {Mode::BALANCE_XOR, Mode::LACP, Mode::BALANCE_TLB}) {
    if (bond.mode == hashing) bond.hashPolicy = config::BondXmitHashPolicy::LAYER34;
  }
  bond.miimon = kMonitorInterval;
  bond.upDelay = bond.downDelay = kDelay;
  return bond;
}

// Returns the name of the first bond.
kj::String readBonds(Value network, PlatformFacts& facts) {
  auto text = network["bonding"]["mode"].textOrShape();
  kj::String first;
  auto most = static_cast<unsigned>(config::BondMode::BALANCE_ALB);
  unsigned mode = 0;
  KJ_IF_MAYBE (number, numberIn(text, 0, most)) {
    mode = *number;
  } else {
    if (text.size() > 0) {
      facts.problem("bonding: \"", text, "\" is not a valid mode (0 to ", most,
                    "); the bonds are ignored");
      return first;
    }
  }
  for (auto entry : network["interfaces"].items()) {
    auto name = entry["bond"].text();
    if (name.size() == 0) continue;
    if (first.size() == 0) first = kj::str(name);
    auto member = macOf(entry["mac"].text()).orDefault(kj::str(entry["name"].text()));
    bondOf(facts.interfaceOf("", name), mode).members.add(kj::mv(member));
  }
  return first;
}

void readBondAddress(Value entry, Value root, Interface& link, PlatformFacts& facts) {
  if (!entry["enabled"].flag() || !entry["management"].flag()) return;
  auto prefix = KJ_UNWRAP_OR_RETURN(
      facts.addAddress(link, entry["address"].textOrShape(), entry["cidr"].textOrShape()));
  auto gateway = KJ_UNWRAP_OR_RETURN(facts.gatewayOf(link.name, entry["gateway"].textOrShape()));
  if (entry["public"].flag()) {
    facts.external(prefix.address.toString());
    facts.addDefaultRoute(link, gateway, metricOf(gateway));
    return;
  }
  for (auto subnet : root["private_subnets"].items()) {
    auto network = Prefix::parse(subnet.textOrShape());
    KJ_IF_MAYBE (destination, network) {
      if (destination->address.family() != gateway.family()) continue;
      facts.addRoute(link, Route{destination->masked(), gateway, kRouteMetric});
    } else {
      facts.invalid("private_subnets", subnet.textOrShape(), "network");
    }
  }
}

// Adds routes to the neighbours to which the machine announces its own routes with BGP.
void readNeighbours(Value root, Interface& link, PlatformFacts& facts) {
  for (auto neighbour : root["bgp_neighbors"].items()) {
    if (neighbour["address_family"].number() != 4) continue;
    for (auto address : root["network"]["addresses"].items()) {
      if (address["public"].flag() || address["address_family"].number() != 4) continue;
      auto gateway =
          KJ_UNWRAP_OR_RETURN(facts.gatewayOf(link.name, address["gateway"].textOrShape()));
      for (auto peer : neighbour["peer_ips"].items()) {
        KJ_IF_MAYBE (ip, Ip::parse(peer.text())) {
          facts.addRoute(link, Route{Prefix::host(*ip), gateway, kRouteMetric});
        } else {
          facts.invalid("peer_ips", peer.textOrShape(), "address");
        }
      }
      break;
    }
  }
}

}  // namespace

void readEquinixMetal(const Answers& answers, PlatformFacts& facts) {
  Document document("metadata", answers.bytes("metadata"));
  auto root = document.root();
  facts.hostname = kj::str(root["hostname"].text());
  facts.region = kj::str(root["metro"].text());
  facts.zone = kj::str(root["facility"].text());
  facts.instanceType = kj::str(root["plan"].text());
  facts.instanceId = kj::str(root["id"].text());
  facts.providerId = kj::str("equinixmetal://", facts.instanceId);
  auto network = root["network"];
  auto bond = readBonds(network, facts);
  if (bond.size() == 0) return;
  auto& link = facts.interfaceOf("", bond);
  for (auto entry : network["addresses"].items()) readBondAddress(entry, root, link, facts);
  readNeighbours(root, link, facts);
}

namespace {

void readVnics(Document& vnics, PlatformFacts& facts) {
  unsigned index = 0;
  for (auto entry : vnics.root().items()) {
    auto name = kj::str("eth", index++);
    auto gateway = facts.gatewayOf(name, entry["ipv6VirtualRouterIp"].textOrShape());
    if (gateway == nullptr || entry["ipv6SubnetCidrBlock"].text().size() == 0) continue;
    auto& link = facts.interfaceOf(entry["macAddr"].text(), name);
    link.dhcp4 = link.dhcp6 = true;
    facts.addDefaultRoute(link, KJ_ASSERT_NONNULL(gateway), kRouteMetric6);
  }
}

}  // namespace

void readOracle(const Answers& answers, PlatformFacts& facts) {
  Document document("instance", answers.bytes("instance"));
  auto root = document.root();
  facts.hostname = kj::str(root["hostname"].text());
  facts.region = kj::str(root["region"].text());
  facts.instanceId = kj::str(root["id"].text());
  facts.instanceType = kj::str(root["shape"].text());
  // "EMIr:PHX-AD-1"
  auto domain = root["availabilityDomain"].text();
  KJ_IF_MAYBE (colon, domain.findLast(':')) domain = domain.slice(*colon + 1);
  facts.zone = kj::str(domain);
  facts.providerId = kj::str("oci://", facts.instanceId);
  facts.resolver("169.254.169.254");
  facts.timeServers.add(kj::str("169.254.169.254"));
  if (!answers.has("vnics")) return;
  Document vnics("vnics", answers.bytes("vnics"));
  readVnics(vnics, facts);
}

namespace {

constexpr unsigned kScalewayServerMetric = 4096;

// Names of zones from before there were regions.
struct OldZone {
  kj::StringPtr old, zone;
};
constexpr OldZone kOldZones[] = {{"par1"_kj, "fr-par-1"_kj}, {"ams1"_kj, "nl-ams-1"_kj}};

kj::String zoneOf(kj::StringPtr text) {
  for (auto& each : kOldZones) {
    if (each.old == text) return kj::str(each.zone);
  }
  return kj::str(text);
}

void addIpv6(Value entry, Interface& link, PlatformFacts& facts) {
  KJ_IF_MAYBE (prefix, facts.addAddress(link, entry["address"].textOrShape(),
                                        entry["netmask"].textOrShape())) {
    facts.external(prefix->address.toString());
    facts.addDefaultRoute(link, entry["gateway"].textOrShape());
  }
}

}  // namespace

void readScaleway(const Answers& answers, PlatformFacts& facts) {
  Document document("metadata", answers.bytes("metadata"));
  auto root = document.root();
  facts.hostname = kj::str(root["hostname"].text());
  facts.instanceId = kj::str(root["id"].text());
  facts.instanceType = kj::str(root["commercial_type"].text());
  facts.zone = zoneOf(root["location"]["zone_id"].text());
  KJ_IF_MAYBE (dash, facts.zone.findLast('-')) {
    facts.region = kj::heapString(facts.zone.slice(0, *dash));
  }
  facts.providerId = kj::str("scaleway://instance/", facts.zone, "/", facts.instanceId);
  auto address = root["public_ip"];
  if (address["family"].text() == "inet") facts.external(address["address"].text());

  auto& link = facts.interfaceOf("", "eth0");
  facts.addRoute(link,
                 Route{Prefix::host(Ip::require("169.254.42.42")), nullptr, kScalewayServerMetric});
  link.dhcp4 = root["public_ips_v4"].items().size() > 0;
  auto sixes = root["public_ips_v6"].items();
  if (root["ipv6"].isMapping()) {
    addIpv6(root["ipv6"], link, facts);
  } else if (sixes.size() > 0) {
    addIpv6(sixes[0], link, facts);
  }
  // DHCP may be left out only if the link has addresses.
  if (link.addresses().size() == 0) link.dhcp4 = true;
}

namespace {

void readUpcloudAddress(Value entry, Interface& link, PlatformFacts& facts, bool first) {
  auto text = entry["address"].textOrShape();
  auto ip = KJ_UNWRAP_OR_RETURN(Ip::parse(text), facts.invalid(link.name, text, "address"));
  for (auto server : entry["dns"].items()) facts.resolver(server.text());
  if (first || ip.family() == AF_INET6) facts.external(text);
  if (entry["dhcp"].flag() && ip.family() == AF_INET) {
    link.dhcp4 = true;
    return;
  }
  auto network = entry["network"].textOrShape();
  unsigned length = ip.bits();
  KJ_IF_MAYBE (n, Prefix::parse(network)) {
    if (n->address.family() == ip.family()) length = n->length;
  } else {
    if (network.size() > 0) facts.invalid(link.name, network, "network");
  }
  facts.addAddress(link, Prefix{ip, length});
  facts.addDefaultRoute(link, entry["gateway"].textOrShape());
}

}  // namespace

void readUpcloud(const Answers& answers, PlatformFacts& facts) {
  Document document("metadata", answers.bytes("metadata"));
  auto root = document.root();
  facts.hostname = kj::str(root["hostname"].text());
  facts.zone = kj::str(root["region"].text());
  facts.instanceId = kj::str(root["instance_id"].text());
  facts.providerId = kj::str("upcloud://", facts.instanceId);
  bool first = true;
  for (auto entry : root["network"]["interfaces"].items()) {
    auto index = entry["index"].number();
    if (index == 0) continue;
    auto& link = facts.interfaceOf(entry["mac"].text(), kj::str("eth", index - 1));
    for (auto address : entry["ip_addresses"].items()) {
      readUpcloudAddress(address, link, facts, first);
      first = false;
    }
  }
}

namespace {

constexpr unsigned kPrivateMtu = 1450;

void readVultrInterface(Value entry, Interface& link, PlatformFacts& facts) {
  bool isPublic = entry["network-type"].text() == "public";
  auto four = entry["ipv4"];
  auto address = four["address"].textOrShape();
  if (!isPublic) link.mtu = kPrivateMtu;
  if (address.size() == 0) {
    link.dhcp4 = true;
  } else {
    KJ_IF_MAYBE (prefix, facts.addAddress(link, address, four["netmask"].textOrShape())) {
      facts.addDefaultRoute(link, four["gateway"].textOrShape());
      if (isPublic) facts.external(prefix->address.toString());
    }
  }
  // Routers give the address of IPv6.
  if (isPublic) facts.external(entry["ipv6"]["address"].text());
}

}  // namespace

void readVultr(const Answers& answers, PlatformFacts& facts) {
  Document document("metadata", answers.bytes("metadata"));
  auto root = document.root();
  facts.hostname = kj::str(root["hostname"].text());
  facts.region = kj::str(root["region"]["regioncode"].text());
  facts.instanceId = kj::str(root["instance-v2-id"].text());
  facts.providerId = kj::str("vultr://", facts.instanceId);
  unsigned index = 0;
  for (auto entry : root["interfaces"].items()) {
    readVultrInterface(entry, facts.interfaceOf(entry["mac"].text(), kj::str("eth", index++)),
                       facts);
  }
}

}  // namespace talos::platforms
