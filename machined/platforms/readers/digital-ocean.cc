#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
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

}  // namespace talos::platforms
