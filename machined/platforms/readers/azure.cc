#include "machined/platforms/readers/azure.h"

#include "common/base/error.h"
#include "common/text/ascii.h"
#include "common/xml/xml.h"
#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

constexpr unsigned kRouterMetric = 4096;

// Returns "azure://" and the resource, whose group alone is in lower case; empty if it is not a
// resource.
kj::String providerIdOf(kj::StringPtr resource) {
  constexpr kj::StringPtr kGroups = "/resourceGroups/"_kj;
  for (size_t at = 0; at + kGroups.size() < resource.size(); ++at) {
    if (!resource.slice(at).startsWith(kGroups)) continue;
    size_t begin = at + kGroups.size();
    size_t length = KJ_UNWRAP_OR_RETURN(resource.slice(begin).findFirst('/'), kj::String());
    auto group = lowerCase(kj::heapString(resource.slice(begin, begin + length)));
    return kj::str("azure://", kj::heapString(resource.slice(0, begin)), group,
                   resource.slice(begin + length));
  }
  return kj::String();
}

void readCompute(Value root, PlatformFacts& facts) {
  auto location = root["location"].text(), zone = root["zone"].text();
  facts.hostname = kj::str(root["osProfile"]["computerName"].text());
  facts.region = lowerCase(location);
  facts.zone = zone.size() > 0 ? lowerCase(kj::str(location, "-", zone))
                               : kj::str(root["platformFaultDomain"].text());
  facts.instanceType = kj::str(root["vmSize"].text());
  facts.instanceId = kj::str(root["resourceId"].text());
  facts.spot = root["evictionPolicy"].text().size() > 0;
  facts.providerId = providerIdOf(facts.instanceId);
  if (facts.providerId.size() == 0) {
    facts.problem("compute: resourceId \"", facts.instanceId,
                  "\" names no resource group; there is no provider id");
  }
}

void readInterfaces(Value list, PlatformFacts& facts) {
  unsigned index = 0;
  for (auto entry : list.items()) {
    auto name = kj::str("eth", index++);
    for (auto address : entry["ipv4"]["ipAddress"].items()) {
      facts.external(address["publicIpAddress"].text());
    }
    auto sixes = entry["ipv6"]["ipAddress"].items();
    for (auto address : sixes) facts.external(address["publicIpAddress"].text());
    if (sixes.empty()) continue;
    auto& link = facts.interfaceOf(entry["macAddress"].text(), name);
    link.dhcp4 = link.dhcp6 = true;
    facts.addDefaultRoute(link, Ip::require("fe80::1234:5678:9abc"), kRouterMetric);
  }
}

// Returns "[2001:db8::1]" without its brackets, and an IPv4 address unchanged.
kj::String withoutBrackets(kj::StringPtr text) {
  bool bracketed = text.startsWith("[") && text.endsWith("]");
  return bracketed ? kj::heapString(text.slice(1, text.size() - 1)) : kj::str(text);
}

constexpr size_t kMostIdentifier = 128;

}  // namespace

void readAzure(const Answers& answers, PlatformFacts& facts) {
  Document compute("compute", answers.bytes("compute"));
  readCompute(compute.root(), facts);
  if (answers.has("interfaces")) {
    Document interfaces("interface", answers.bytes("interfaces"));
    readInterfaces(interfaces.root(), facts);
  }
  if (!answers.has("loadbalancer")) return;
  Document balancer("loadbalancer", answers.bytes("loadbalancer"));
  for (auto entry : balancer.root()["loadbalancer"]["publicIpAddresses"].items()) {
    facts.external(withoutBrackets(entry["frontendIpAddress"].text()));
  }
}

kj::Array<char> azureCustomData(kj::ArrayPtr<const char> ovfEnvironment) {
  return textOf("CustomData", "ovf-env.xml", ovfEnvironment);
}

kj::String azureReadyReport(kj::ArrayPtr<const char> goalState) {
  auto named = [&](kj::StringPtr element) {
    auto text = textOf(element, "goal state", goalState);
    auto id = kj::heapString(trimmed(text));
    bool good = id.size() > 0 && id.size() <= kMostIdentifier;
    for (unsigned char c : id) good = good && c >= ' ' && c != 0x7f;
    if (!good) {
      fail(ErrorKind::kInvalidArgument, kj::str("goal state: ", element, " is not a text of 1 to ",
                                                kMostIdentifier, " printable characters"));
    }
    return xmlEscaped(id);
  };
  auto incarnation = named("Incarnation"), container = named("ContainerId"),
       instance = named("InstanceId");
  return kj::str(
      "<?xml version=\"1.0\" encoding=\"utf-8\"?><Health><GoalStateIncarnation>", incarnation,
      "</GoalStateIncarnation><Container><ContainerId>", container,
      "</ContainerId><RoleInstanceList><Role><InstanceId>", instance,
      "</InstanceId><Health><State>Ready</State></Health></Role></RoleInstanceList></Container>"
      "</Health>");
}

}  // namespace talos::platforms
