// Readers of platforms whose metadata is one answer for each key.
#include "common/text/ascii.h"
#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {

void readAws(const Answers& answers, PlatformFacts& facts) {
  facts.hostname = answers.line("hostname");
  facts.instanceType = answers.line("instance-type");
  facts.instanceId = answers.line("instance-id");
  facts.region = answers.line("region");
  facts.zone = answers.line("zone");
  facts.spot = answers.line("life-cycle") == "spot";
  facts.internalDns = answers.line("local-hostname");
  facts.externalDns = answers.line("public-hostname");
  facts.providerId = kj::str("aws:///", facts.zone, "/", facts.instanceId);
  facts.external(answers.line("public-ipv4"));
  facts.external(answers.line("ipv6"));
  // "Amazon Time Sync Service": reachable from every instance.
  facts.timeServers.add(kj::str("169.254.169.123"));
}

namespace {

// Reads metadata in the form of CloudStack's virtual routers, which Exoscale has kept.
void readKeys(const Answers& answers, kj::StringPtr scheme, PlatformFacts& facts) {
  facts.hostname = answers.line("hostname");
  facts.instanceId = answers.line("instance-id");
  facts.zone = answers.line("zone");
  facts.region = kj::str(facts.zone);
  // "Standard.Tiny 1024mb"
  auto offering = lowerCase(answers.line("offering"));
  KJ_IF_MAYBE (blank, offering.findFirst(' ')) {
    offering = kj::heapString(offering.slice(0, *blank));
  }
  facts.instanceType = kj::mv(offering);
  facts.providerId = kj::str(scheme, "://", facts.instanceId);
  facts.external(answers.line("public-ipv4"));
}

}  // namespace

void readCloudstack(const Answers& answers, PlatformFacts& facts) {
  readKeys(answers, "cloudstack", facts);
}

void readExoscale(const Answers& answers, PlatformFacts& facts) {
  readKeys(answers, "exoscale", facts);
}

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
