#include "networkd/plan/firewall-rules.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <netinet/in.h>

#include "common/base/error.h"

namespace talos::networkd {
namespace {

using Verdict = PacketRule::Verdict;

constexpr kj::StringPtr kIngress = "ingress"_kj, kPrerouting = "prerouting"_kj, kPods = "pods"_kj;
// Before the translation of services (-100) and after the tracking of connections (-200).
constexpr int32_t kIngressPriority = -140, kPreroutingPriority = -110;
// Links that carry only what has been authenticated, and the node's own packets.
constexpr kj::StringPtr kTrustedLinks[] = {"lo"_kj, "siderolink"_kj, "kubespan"_kj};
constexpr uint32_t kInvalid = NF_CT_STATE_INVALID_BIT,
                   kOpen = NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED),
                   kNew = NF_CT_STATE_BIT(IP_CT_NEW);
constexpr uint32_t kIcmpPerSecond = 5;
constexpr uint8_t kTransports[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6},
                  kPortTransports[] = {IPPROTO_TCP, IPPROTO_UDP};
// Types of ICMP: questions for the clock and the network mask, and their answers.
constexpr PacketRule::Range kClock = {13, 14}, kMask = {17, 18};
// Types of ICMPv6, from the router solicitation to the neighbour advertisement (RFC 4861).
constexpr PacketRule::Range kDiscovery = {133, 136};
constexpr PacketRule::Range kDhcpClient = {546, 546};  // port of DHCPv6 (RFC 8415)
constexpr PacketRule::Range kDnsPort = {53, 53};
constexpr size_t kLongestName = 40;

kj::StringPtr transportName(uint8_t transport) {
  switch (transport) {
    case IPPROTO_TCP:
      return "tcp";
    case IPPROTO_UDP:
      return "udp";
    case IPPROTO_ICMP:
      return "icmp";
    case IPPROTO_ICMPV6:
      return "icmpv6";
    default:
      return "";
  }
}

uint8_t transportNamed(kj::StringPtr name) {
  for (auto transport : kTransports) {
    if (transportName(transport) == name) return transport;
  }
  fail(ErrorKind::kInvalidArgument, kj::str("a rule of the firewall has the protocol ", name));
}

kj::String rangeText(const PacketRule::Range& range) {
  return range.first == range.last ? kj::str(range.first) : kj::str(range.first, "-", range.last);
}

// Returns the name with only those characters that nothing along the way changes.
kj::String plainName(kj::StringPtr name) {
  kj::Vector<char> plain;
  for (char c : name.slice(0, kj::min(name.size(), kLongestName))) {
    bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '-' || c == '_' || c == '.';
    plain.add(kept ? c : '?');
  }
  return kj::heapString(plain.begin(), plain.size());
}

kj::StringPtr stateNames(uint32_t states) {
  if (states == kOpen) return "established,related";
  return states == kNew ? "new"_kj : "invalid"_kj;
}

Prefix networkIn(kj::StringPtr text) {
  KJ_IF_MAYBE (prefix, Prefix::parse(text)) return prefix->masked();
  fail(ErrorKind::kInvalidArgument, kj::str("the firewall has the network ", text));
}

class FirewallPlanner {
 public:
  explicit FirewallPlanner(rpc::FirewallSpecSpec::Reader spec) : spec(spec) {
    for (auto subnet : spec.getPodSubnets()) pods.add(networkIn(subnet));
    for (auto subnet : spec.getServiceSubnets()) pods.add(networkIn(subnet));
  }

  FirewallTable plan() {
    table.block = spec.getBlock();
    table.count = spec.getRules().size();
    begin(kIngress);
    planIngress();
    begin(kPrerouting);
    planPrerouting();
    if (table.block && !pods.empty()) {
      begin(kPods);
      for (auto& subnet : pods) add(Verdict::kAccept).destination = subnet;
      acceptResolver();
    }
    unsigned i = 0;
    for (auto rule : spec.getRules()) {
      begin(chainOf(i++));
      planSources(rule);
    }
    return kj::mv(table);
  }

 private:
  rpc::FirewallSpecSpec::Reader spec;
  kj::Vector<Prefix> pods;  // and services
  FirewallTable table;

  static kj::String chainOf(unsigned rule) { return kj::str("rule-", rule); }

  void begin(kj::StringPtr chain) { table.chains.add(kj::str(chain)); }

  // Adds a rule to the chain that was begun last.
  PacketRule& add(Verdict verdict) {
    auto& rule = table.rules.add();
    rule.chain = kj::str(table.chains.back());
    rule.verdict = verdict;
    return rule;
  }
  PacketRule& jump(kj::StringPtr target) {
    auto& rule = add(Verdict::kJump);
    rule.target = kj::str(target);
    return rule;
  }
  PacketRule& add(Verdict verdict, uint8_t transport) {
    auto& rule = add(verdict);
    rule.transport = transport;
    return rule;
  }

  void planIngress() {
    acceptLinks();
    add(Verdict::kAccept, IPPROTO_ICMPV6).types = kDiscovery;
    if (!table.block) {
      // Else a rule for a port would drop the answers to a connection that the node opens from it.
      add(Verdict::kAccept).reply = true;
    } else {
      add(Verdict::kAccept).states = kOpen;
      add(Verdict::kDrop).states = kInvalid;
      add(Verdict::kDrop, IPPROTO_ICMP).types = kClock;
      add(Verdict::kDrop, IPPROTO_ICMP).types = kMask;
      add(Verdict::kAccept, IPPROTO_ICMP).limited = true;
      add(Verdict::kAccept, IPPROTO_ICMPV6).limited = true;
      acceptDhcp();
      jumpFromPods();
    }
    jumpToRules(0);
    // The policy of the chain does the same, without a count.
    if (table.block) add(Verdict::kDrop);
  }

  void planPrerouting() {
    acceptLinks();
    add(Verdict::kAccept).passing = true;
    if (table.block) {
      acceptDhcp();
      jumpFromPods();
    }
    jumpToRules(kNew);
    if (!table.block) return;
    for (auto transport : kPortTransports) {
      add(Verdict::kDrop, transport).states = kNew;
    }
  }

  void acceptLinks() {
    for (auto link : kTrustedLinks) add(Verdict::kAccept).link = link;
  }

  void acceptDhcp() {
    auto& rule = add(Verdict::kAccept, IPPROTO_UDP);
    rule.source = Prefix{Ip::require("fe80::"), 10};
    rule.ports = kDhcpClient;
  }

  void jumpFromPods() {
    for (auto& subnet : pods) jump(kPods).source = subnet;
  }

  void acceptResolver() {
    for (auto address : spec.getHostDnsAddresses()) {
      for (auto transport : kPortTransports) {
        auto& rule = add(Verdict::kAccept, transport);
        rule.destination = Prefix::host(Ip::require(address));
        rule.ports = kDnsPort;
      }
    }
  }

  // Adds the jumps to the rules of the config, for connections in these states.
  void jumpToRules(uint32_t states) {
    unsigned i = 0;
    for (auto rule : spec.getRules()) {
      auto target = chainOf(i++);
      auto transport = transportNamed(rule.getProtocol());
      auto jumpTo = [&]() -> PacketRule& {
        auto& one = jump(target);
        one.states = states;
        one.transport = transport;
        one.name = kj::str(rule.getName());
        return one;
      };
      if (transport == IPPROTO_ICMP || transport == IPPROTO_ICMPV6) {
        jumpTo();
        continue;
      }
      for (auto ports : rule.getPorts()) {
        jumpTo().ports = PacketRule::Range{ports.getFirst(), ports.getLast()};
      }
    }
  }

  // A source is one of the subnets and none of the exceptions.
  void planSources(config::FirewallRule::Reader rule) {
    auto source = table.block ? Verdict::kAccept : Verdict::kReturn,
         other = table.block ? Verdict::kReturn : Verdict::kDrop;
    for (auto subnet : rule.getExcept()) add(other).source = networkIn(subnet);
    for (auto subnet : rule.getSubnets()) add(source).source = networkIn(subnet);
    if (!table.block) add(other);
  }
};

uint8_t protocolFamily(const Prefix& network) {
  return network.address.family() == AF_INET ? NFPROTO_IPV4 : NFPROTO_IPV6;
}

void addExpressions(const PacketRule& rule, Expressions out) {
  if (rule.link.size() > 0) out.arrivesAt(rule.link);
  if (rule.passing) out.passesBy();
  if (rule.states != 0) out.connection(rule.states);
  if (rule.reply) out.reply();
  KJ_IF_MAYBE (network, rule.source) {
    out.family(protocolFamily(*network));
    out.source(*network);
  }
  KJ_IF_MAYBE (network, rule.destination) {
    out.family(protocolFamily(*network));
    out.destination(*network);
  }
  if (rule.transport == IPPROTO_ICMP) out.family(NFPROTO_IPV4);
  if (rule.transport == IPPROTO_ICMPV6) out.family(NFPROTO_IPV6);
  if (rule.transport != 0) out.transport(rule.transport);
  KJ_IF_MAYBE (types, rule.types) {
    out.types(static_cast<uint8_t>(types->first), static_cast<uint8_t>(types->last));
  }
  KJ_IF_MAYBE (ports, rule.ports) out.ports(ports->first, ports->last);
  if (rule.limited) out.atMost(kIcmpPerSecond, kIcmpPerSecond);
  out.count();
  switch (rule.verdict) {
    case Verdict::kAccept:
      return out.accept();
    case Verdict::kDrop:
      return out.drop();
    case Verdict::kReturn:
      return out.goBack();
    case Verdict::kJump:
      return out.jump(rule.target);
  }
}

}  // namespace

kj::String PacketRule::comment() const {
  kj::Vector<kj::String> parts;
  auto network = [&](kj::StringPtr side, const Prefix& prefix) {
    bool v4 = prefix.address.family() == AF_INET;
    parts.add(kj::str(v4 ? "ip" : "ip6", " ", side, " ", prefix));
  };
  if (link.size() > 0) parts.add(kj::str("iifname ", link));
  if (passing) parts.add(kj::str("fib daddr type not local"));
  if (states != 0) parts.add(kj::str("ct state ", stateNames(states)));
  if (reply) parts.add(kj::str("ct direction reply"));
  KJ_IF_MAYBE (prefix, source) network("saddr", *prefix);
  KJ_IF_MAYBE (prefix, destination) network("daddr", *prefix);
  if (transport != 0) parts.add(kj::str(transportName(transport)));
  KJ_IF_MAYBE (range, types) parts.add(kj::str("type ", rangeText(*range)));
  KJ_IF_MAYBE (range, ports) parts.add(kj::str("dport ", rangeText(*range)));
  if (limited) parts.add(kj::str("limit ", kIcmpPerSecond, " a second"));
  switch (verdict) {
    case Verdict::kAccept:
      parts.add(kj::str("accept"));
      break;
    case Verdict::kDrop:
      parts.add(kj::str("drop"));
      break;
    case Verdict::kReturn:
      parts.add(kj::str("return"));
      break;
    case Verdict::kJump:
      parts.add(kj::str("jump ", target));
      break;
  }
  if (name.size() > 0) parts.add(kj::str("for ", plainName(name)));
  return kj::strArray(parts, " ");
}

kj::Vector<FilterRule> FirewallTable::listed() const {
  kj::Vector<FilterRule> all;
  for (auto& rule : rules) all.add(FilterRule{kj::str(rule.chain), rule.comment()});
  return all;
}

uint64_t FirewallTable::dropped(kj::ArrayPtr<const FilterRule> found) const {
  uint64_t packets = 0;
  for (auto i : kj::indices(rules)) {
    if (i < found.size() && rules[i].verdict == Verdict::kDrop) packets += found[i].packets;
  }
  return packets;
}

FirewallTable firewallTable(rpc::FirewallSpecSpec::Reader spec) {
  return FirewallPlanner(spec).plan();
}

kj::Vector<kj::Array<kj::byte>> encodeFirewall(const FirewallTable& table) {
  TableBatch batch(kFirewallTable);
  batch.addTable();
  for (auto& chain : table.chains) {
    if (chain == kIngress) {
      batch.addChain(chain, TableBatch::Hook{NF_INET_LOCAL_IN, kIngressPriority, table.block});
    } else if (chain == kPrerouting) {
      batch.addChain(chain, TableBatch::Hook{NF_INET_PRE_ROUTING, kPreroutingPriority});
    } else {
      batch.addChain(chain);
    }
  }
  for (auto& rule : table.rules) {
    batch.addRule(rule.chain, rule.comment(), [&](Expressions out) { addExpressions(rule, out); });
  }
  return batch.finish();
}

}  // namespace talos::networkd
