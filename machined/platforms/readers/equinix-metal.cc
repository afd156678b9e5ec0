#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

constexpr unsigned kMonitorInterval = 100, kDelay = 200;  // ms

Bond& bondOf(Interface& link, unsigned mode) {
  KJ_IF_MAYBE (bond, link.bond) return *bond;
  auto& bond = link.bond.emplace();
  bond.mode = static_cast<config::BondMode>(mode);
  bond.hashPolicy = config::BondXmitHashPolicy::LAYER34;
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

}  // namespace talos::platforms
