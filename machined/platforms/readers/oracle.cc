#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
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

}  // namespace talos::platforms
