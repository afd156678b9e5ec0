// Documents of the firewall: NetworkDefaultActionConfig and NetworkRuleConfig.

#include <vector>

#include "common/config/documents/document-reader.h"
#include "common/config/rules/config-check.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

constexpr auto kFirewall = "machine.network.firewall"_kj;
// The kernel gets each port and each source as a rule, all of them in one message.
constexpr size_t kMostParts = 4096;

struct PortRange {
  uint16_t first, last;
};

// Port 0 is valid here, unlike for parsePort(): Talos takes every number of 16 bits, and 0-65535 is
// how a rule names all ports.
kj::Maybe<uint16_t> portIn(kj::StringPtr text) {
  if (text == "0") return uint16_t{0};
  return parsePort(text);
}

// Reads "50000" and "6443-6444".
kj::Maybe<PortRange> portsIn(kj::StringPtr text) {
  size_t dash = text.findFirst('-').orDefault(text.size());
  auto end = dash < text.size() ? text.slice(dash + 1) : text;
  KJ_IF_MAYBE (first, portIn(kj::heapString(text.slice(0, dash)))) {
    KJ_IF_MAYBE (last, portIn(end)) {
      if (*first <= *last) return PortRange{*first, *last};
    }
  }
  return nullptr;
}

}  // namespace

FirewallDocuments::FirewallDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder), view(view), rules(0) {}

void FirewallDocuments::dropSince(Mark mark) {
  rules.keepFirst(mark.rules);
}

void FirewallDocuments::write() {
  if (!block && rules.size() == 0) return;
  auto firewall = view.getMachine().getNetwork().initFirewall();
  firewall.setBlock(block);
  rules.write(firewall.asReader().getRules(),
              [&](unsigned size) { return firewall.initRules(size); });
}

void FirewallDocuments::defaultAction(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::NetworkDefaultActionConfig>(document)) {
    auto action = d->getIngress();
    if (action.size() > 0 && action != "accept" && action != "block") {
      return decoder.report(document, "ingress", kj::str(jsonString(action), " is not valid"),
                            "use accept or block");
    }
    block = action == "block";
    decoder.from(document, "", kFirewall);
  }
}

void FirewallDocuments::rule(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::NetworkRuleConfig>(document)) {
    auto selector = d->getPortSelector();
    auto protocol = selector.getProtocol();
    if (protocol != "tcp" && protocol != "udp" && protocol != "icmp" && protocol != "icmpv6") {
      decoder.report(document, "portSelector.protocol",
                     kj::str(jsonString(protocol), " is not a protocol of a rule"),
                     "use tcp, udp, icmp or icmpv6");
    }
    parts += selector.getPorts().size() + d->getIngress().size();
    if (parts > kMostParts) {
      return decoder.report(document, "",
                            kj::str("the rules have more than ", kMostParts, " ports and subnets"),
                            "use larger ranges and networks");
    }
    kj::String path;
    auto out = rules.add(kj::str(kFirewall, ".rules"), path);
    out.setName(d->getName());
    out.setProtocol(protocol);
    ports(document, selector.getPorts(), out);
    sources(document, d->getIngress(), out);
    decoder.from(document, "", path);
  }
}

void FirewallDocuments::ports(Document& document, capnp::List<capnp::Text>::Reader list,
                              FirewallRule::Builder out) {
  constexpr auto kKey = "portSelector.ports"_kj;
  if (list.size() == 0) {
    return decoder.report(document, kKey, kj::str("there are no ports"), "add one");
  }
  std::vector<PortRange> before;
  auto ranges = out.initPorts(list.size());
  for (auto i : kj::indices(list)) {
    auto key = kj::str(kKey, "[", i, "]");
    KJ_IF_MAYBE (range, portsIn(list[i])) {
      for (auto& other : before) {
        if (range->first > other.last || other.first > range->last) continue;
        decoder.report(document, key, kj::str(list[i], " overlaps another item"),
                       "write each port once");
        break;
      }
      before.push_back(*range);
      ranges[i].setFirst(range->first);
      ranges[i].setLast(range->last);
    } else {
      decoder.report(document, key, kj::str(jsonString(list[i]), " is not a port"),
                     "use a number up to 65535, or a range such as 6443-6444");
    }
  }
}

void FirewallDocuments::sources(Document& document,
                                capnp::List<document::NetworkRuleConfig::Source>::Reader list,
                                FirewallRule::Builder out) {
  if (list.size() == 0) return;
  unsigned exceptions = 0;
  for (auto source : list) exceptions += source.getExcept().size() > 0 ? 1 : 0;
  auto subnets = out.initSubnets(list.size());
  auto except = out.initExcept(exceptions);
  unsigned next = 0;
  for (auto i : kj::indices(list)) {
    auto key = kj::str("ingress[", i, "]");
    subnets.set(i, network(document, kj::str(key, ".subnet"), list[i].getSubnet()));
    if (list[i].getExcept().size() == 0) continue;
    except.set(next++, network(document, kj::str(key, ".except"), list[i].getExcept()));
  }
}

kj::String FirewallDocuments::network(Document& document, kj::StringPtr key, kj::StringPtr text) {
  KJ_IF_MAYBE (prefix, Prefix::parse(text)) {
    // The kernel never sees an IPv4 packet as one of IPv6.
    if (!prefix->address.isMapped()) return prefix->masked().toString();
  }
  decoder.report(document, key, kj::str(jsonString(text), " is not a valid network"),
                 "for example 192.0.2.0/24");
  return kj::str();
}

}  // namespace talos::config
