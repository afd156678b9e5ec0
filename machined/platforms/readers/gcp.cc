#include "common/text/ascii.h"
#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

// Returns the last part of a path: "projects/1/zones/eu-t1-a".
kj::String lastPart(kj::StringPtr path) {
  KJ_IF_MAYBE (slash, path.findLast('/')) return kj::str(path.slice(*slash + 1));
  return kj::str(path);
}

void readGcpInterface(Value entry, kj::StringPtr name, PlatformFacts& facts) {
  auto& link = facts.interfaceOf(entry["mac"].text(), name);
  facts.setMtu(link, entry["mtu"].textOrShape());
  link.dhcp4 = true;
  for (auto address : entry["ipv6"].items()) {
    auto text = address.textOrShape();
    if (text.size() > 0) facts.addAddress(link, text);
  }
  KJ_IF_MAYBE (gateway, facts.gatewayOf(link.name, entry["gatewayIpv6"].textOrShape())) {
    if (link.addresses().size() > 0) facts.addDefaultRoute(link, *gateway, kRouteMetric6);
  }
  for (auto access : entry["accessConfigs"].items()) {
    if (access["type"].text() == "ONE_TO_ONE_NAT") facts.external(access["externalIp"].text());
  }
}

}  // namespace

void readGcp(const Answers& answers, PlatformFacts& facts) {
  auto name = answers.line("name");
  facts.hostname = answers.line("hostname");
  facts.instanceId = answers.line("id");
  facts.instanceType = lastPart(answers.line("machine-type"));
  facts.zone = lastPart(answers.line("zone"));
  KJ_IF_MAYBE (dash, facts.zone.findLast('-')) {
    facts.region = kj::heapString(facts.zone.slice(0, *dash));
  }
  facts.spot = lowerCase(answers.line("preemptible")) == "true";
  facts.providerId = kj::str("gce://", answers.line("project"), "/", facts.zone, "/", name);
  facts.resolver("169.254.169.254");
  facts.timeServers.add(kj::str("metadata.google.internal"));
  if (!answers.has("interfaces")) return;
  Document interfaces("network-interfaces", answers.bytes("interfaces"));
  unsigned index = 0;
  for (auto entry : interfaces.root().items()) {
    readGcpInterface(entry, kj::str("eth", index++), facts);
  }
}

}  // namespace talos::platforms
