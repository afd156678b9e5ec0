#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

void readSubnet(Value subnet, Interface& link, PlatformFacts& facts) {
  if (subnet["type"].text() == "dhcp") {
    if (subnet["ipv4"].flag()) link.dhcp4 = true;
    if (subnet["ipv6"].flag()) link.dhcp6 = true;
    return;
  }
  KJ_IF_MAYBE (prefix, facts.addAddress(link, subnet["address"].textOrShape(),
                                        subnet["netmask"].textOrShape())) {
    facts.external(prefix->address.toString());
    KJ_IF_MAYBE (gateway, facts.gatewayOf(link.name, subnet["gateway"].textOrShape())) {
      facts.addDefaultRoute(link, *gateway, kRouteMetric);
    }
  }
}

}  // namespace

void readHetzner(const Answers& answers, PlatformFacts& facts) {
  facts.hostname = answers.line("hostname");
  facts.instanceId = answers.line("instance-id");
  facts.zone = answers.line("zone");
  KJ_IF_MAYBE (dash, facts.zone.findFirst('-')) {
    facts.region = kj::heapString(facts.zone.slice(0, *dash));
  }
  facts.providerId = kj::str("hcloud://", facts.instanceId);
  facts.external(answers.line("public-ipv4"));
  if (!answers.has("network")) return;
  Document network("network-config", answers.bytes("network"));
  for (auto entry : network.root()["config"].items()) {
    if (entry["type"].text() != "physical") continue;
    auto& link = facts.interfaceOf(entry["mac_address"].text(), entry["name"].text());
    for (auto subnet : entry["subnets"].items()) readSubnet(subnet, link, facts);
  }
}

}  // namespace talos::platforms
