#include "networkd/plan/metadata-rules.h"

#include <linux/netfilter.h>
#include <netinet/in.h>

namespace talos::networkd {
namespace {

constexpr kj::StringPtr kForward = "forward"_kj, kMetadata = "metadata"_kj;
constexpr int32_t kPriority = -10;  // before "filter" (0), after the translation of services
constexpr uint16_t kDns = 53, kNtp = 123;

// Calls handle(chain, comment, fill) for each rule, in their order; fill(Expressions) adds its
// expressions.
template <typename F>
void eachRule(kj::ArrayPtr<const Ip> addresses, F&& handle) {
  for (auto& ip : addresses) {
    handle(kForward, kj::str("to ", ip), [&ip](Expressions rule) {
      rule.family(ip.family() == AF_INET ? NFPROTO_IPV4 : NFPROTO_IPV6);
      rule.destination(Prefix::host(ip));
      rule.jump(kMetadata);
    });
  }
  handle(kMetadata, kj::str("of a connection to a pod"), [](Expressions rule) {
    rule.transport(IPPROTO_TCP);
    rule.underWay();
    rule.accept();
  });
  auto service = [&](kj::StringPtr comment, uint8_t transport, uint16_t port) {
    handle(kMetadata, kj::str(comment), [&](Expressions rule) {
      rule.transport(transport);
      rule.ports(port, port);
      rule.accept();
    });
  };
  service("DNS over UDP", IPPROTO_UDP, kDns);
  service("DNS over TCP", IPPROTO_TCP, kDns);
  service("NTP", IPPROTO_UDP, kNtp);
  handle(kMetadata, kj::str("pods are kept from the metadata service"), [](Expressions rule) {
    rule.count();
    rule.drop();
  });
}

}  // namespace

kj::Vector<FilterRule> metadataRules(kj::ArrayPtr<const Ip> addresses) {
  kj::Vector<FilterRule> rules;
  eachRule(addresses, [&](kj::StringPtr chain, kj::String comment, auto&&) {
    rules.add(FilterRule{kj::str(chain), kj::mv(comment)});
  });
  return rules;
}

kj::Vector<kj::Array<kj::byte>> encodeMetadataRules(kj::ArrayPtr<const Ip> addresses) {
  TableBatch batch(kMetadataTable);
  batch.addTable();
  batch.addChain(kForward, TableBatch::Hook{NF_INET_FORWARD, kPriority});
  batch.addChain(kMetadata);
  eachRule(addresses, [&](kj::StringPtr chain, kj::String comment, auto&& fill) {
    batch.addRule(chain, comment, fill);
  });
  return batch.finish();
}

}  // namespace talos::networkd
