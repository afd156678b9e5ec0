#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

constexpr unsigned kPrivateMtu = 1450;

void readVultrInterface(Value entry, Interface& link, PlatformFacts& facts) {
  bool isPublic = entry["network-type"].text() == "public";
  auto four = entry["ipv4"];
  auto address = four["address"].textOrShape();
  if (!isPublic) link.mtu = kPrivateMtu;
  if (address.size() == 0) {
    link.dhcp4 = true;
  } else {
    KJ_IF_MAYBE (prefix, facts.addAddress(link, address, four["netmask"].textOrShape())) {
      facts.addDefaultRoute(link, four["gateway"].textOrShape());
      if (isPublic) facts.external(prefix->address.toString());
    }
  }
  // Routers give the address of IPv6.
  if (isPublic) facts.external(entry["ipv6"]["address"].text());
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
