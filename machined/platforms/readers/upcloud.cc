#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

void readUpcloudAddress(Value entry, Interface& link, PlatformFacts& facts, bool first) {
  auto text = entry["address"].textOrShape();
  auto ip = KJ_UNWRAP_OR_RETURN(Ip::parse(text), facts.invalid(link.name, text, "address"));
  for (auto server : entry["dns"].items()) facts.resolver(server.text());
  if (first || ip.family() == AF_INET6) facts.external(text);
  if (entry["dhcp"].flag() && ip.family() == AF_INET) {
    link.dhcp4 = true;
    return;
  }
  auto network = entry["network"].textOrShape();
  unsigned length = ip.bits();
  KJ_IF_MAYBE (n, Prefix::parse(network)) {
    if (n->address.family() == ip.family()) length = n->length;
  } else {
    if (network.size() > 0) facts.invalid(link.name, network, "network");
  }
  facts.addAddress(link, Prefix{ip, length});
  facts.addDefaultRoute(link, entry["gateway"].textOrShape());
}

}  // namespace

void readUpcloud(const Answers& answers, PlatformFacts& facts) {
  Document document("metadata", answers.bytes("metadata"));
  auto root = document.root();
  facts.hostname = kj::str(root["hostname"].text());
  facts.zone = kj::str(root["region"].text());
  facts.instanceId = kj::str(root["instance_id"].text());
  facts.providerId = kj::str("upcloud://", facts.instanceId);
  bool first = true;
  for (auto entry : root["network"]["interfaces"].items()) {
    auto index = entry["index"].number();
    if (index == 0) continue;
    auto& link = facts.interfaceOf(entry["mac"].text(), kj::str("eth", index - 1));
    for (auto address : entry["ip_addresses"].items()) {
      readUpcloudAddress(address, link, facts, first);
      first = false;
    }
  }
}

}  // namespace talos::platforms
