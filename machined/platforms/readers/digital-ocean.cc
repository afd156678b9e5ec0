#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

constexpr unsigned kDigitalOceanServerMetric = 512;

// Adds the address; none: there is none.
kj::Maybe<Prefix> addAddress(Value entry, kj::StringPtr mask, Interface& link,
                             PlatformFacts& facts) {
  auto text = entry["ip_address"].text();
  if (text.size() == 0) return nullptr;
  auto prefix = prefixOf(text, mask);
  KJ_IF_MAYBE (found, prefix) {
    link.addresses.add(*found);
  } else {
    facts.problem("the address \"", text, "\" of ", link.name, " is none; it is left out");
  }
  return prefix;
}

void addDefaultRoute(Value entry, unsigned metric, Interface& link) {
  KJ_IF_MAYBE (gateway, Ip::parse(entry["gateway"].text())) {
    link.defaultRoute(*gateway, metric);
  }
}

void readPublic(Value entry, Interface& link, PlatformFacts& facts) {
  auto four = entry["ipv4"], six = entry["ipv6"];
  KJ_IF_MAYBE (prefix, addAddress(four, four["netmask"].text(), link, facts)) {
    facts.external(prefix->address.toString());
    addDefaultRoute(four, kRouteMetric, link);
    // The service, whatever other default route there may be.
    KJ_IF_MAYBE (gateway, Ip::parse(four["gateway"].text())) {
      link.routes.add(
          Route{Prefix::host(Ip::require("169.254.169.254")), *gateway, kDigitalOceanServerMetric});
    }
  }
  auto anchor = entry["anchor_ipv4"];
  addAddress(anchor, anchor["netmask"].text(), link, facts);
  KJ_IF_MAYBE (prefix, addAddress(six, six["cidr"].text(), link, facts)) {
    facts.external(prefix->address.toString());
    addDefaultRoute(six, kRouteMetric6, link);
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
    auto four = entry["ipv4"];
    addAddress(four, four["netmask"].text(), link, facts);
  }
}

}  // namespace talos::platforms
