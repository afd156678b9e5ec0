#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
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

}  // namespace talos::platforms
