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
  // Its lease has the default route.
  link.dhcp4 = true;
  auto add = [&](Value entry, bool isPublic) {
    KJ_IF_MAYBE (prefix, prefixOf(entry.text())) {
      link.addresses.add(*prefix);
      if (isPublic) facts.external(prefix->address.toString());
    } else {
      facts.problem("\"", entry.text(), "\" is no address; it is left out");
    }
  };
  for (auto entry : four["public"].items()) add(entry, true);
  for (auto entry : four["private"].items()) add(entry, false);
  // Routers give the machine's address; ranges are routed to it, and no address of it.
  KJ_IF_MAYBE (prefix, prefixOf(six["slaac"].text())) {
    facts.external(prefix->address.toString());
  }
}

}  // namespace talos::platforms
