#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {

void readAkamai(const Answers& answers, PlatformFacts& facts) {
  Document document("instance", answers.bytes("instance"));
  auto root = document.root();
  facts.hostname = kj::str(root["label"].text());
  facts.region = kj::str(root["region"].text());
  facts.instanceType = kj::str(root["type"].text());
  facts.instanceId = kj::str(root["id"].text());
  facts.providerId = kj::str("linode://", facts.instanceId);
  if (!answers.has("network")) return;
  Document network("network", answers.bytes("network"));
  auto four = network.root()["ipv4"], six = network.root()["ipv6"];
  auto& link = facts.interfaceOf("", "eth0");
  // The default route comes from the lease.
  link.dhcp4 = true;
  auto add = [&](Value entry, bool isPublic) {
    KJ_IF_MAYBE (prefix, facts.addAddress(link, entry.textOrShape())) {
      if (isPublic) facts.external(prefix->address.toString());
    }
  };
  for (auto entry : four["public"].items()) add(entry, true);
  for (auto entry : four["private"].items()) add(entry, false);
  // Routers give the machine this address; ranges are routed to the machine, and are not addresses
  // of it.
  auto slaac = six["slaac"].textOrShape();
  KJ_IF_MAYBE (prefix, prefixOf(slaac)) {
    facts.external(prefix->address.toString());
  } else {
    if (slaac.size() > 0) facts.invalid(link.name, slaac, "address");
  }
}

}  // namespace talos::platforms
