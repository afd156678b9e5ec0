#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

constexpr unsigned kPrivateMtu = 1450;

void readVultrInterface(Value entry, Interface& link, PlatformFacts& facts) {
  bool isPublic = entry["network-type"].text() == "public";
  auto four = entry["ipv4"];
  auto address = four["address"].text();
  if (!isPublic) link.mtu = kPrivateMtu;
  if (address.size() == 0) {
    link.dhcp4 = true;
  } else {
    KJ_IF_MAYBE (prefix, prefixOf(address, four["netmask"].text())) {
      link.addresses.add(*prefix);
      KJ_IF_MAYBE (gateway, Ip::parse(four["gateway"].text())) {
        link.defaultRoute(*gateway, kRouteMetric);
      }
    } else {
      facts.problem("the address \"", address, "\" of ", link.name, " is none; it is left out");
    }
  }
  // Routers give the address of IPv6.
  if (!isPublic) return;
  facts.external(address);
  facts.external(entry["ipv6"]["address"].text());
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
