#include "common/netlink/netlink-rule.h"

#include <net/if.h>
#include <netinet/in.h>

#include "common/netlink/netlink-attributes.h"
#include "common/netlink/netlink-codec.h"

namespace talos::netlink {

// --- text

kj::StringPtr ruleActionName(uint8_t action) {
  switch (action) {
    case FR_ACT_TO_TBL:
      return "lookup";
    case FR_ACT_GOTO:
      return "goto";
    case FR_ACT_NOP:
      return "nop";
    case FR_ACT_BLACKHOLE:
      return "blackhole";
    case FR_ACT_UNREACHABLE:
      return "unreachable";
    case FR_ACT_PROHIBIT:
      return "prohibit";
    default:
      return "other";
  }
}

kj::String tableName(uint32_t table) {
  switch (table) {
    case RT_TABLE_LOCAL:
      return kj::str("local");
    case RT_TABLE_MAIN:
      return kj::str("main");
    case RT_TABLE_DEFAULT:
      return kj::str("default");
    default:
      return kj::str(table);
  }
}

kj::Maybe<uint32_t> parseTable(kj::StringPtr text) {
  for (uint32_t table : {RT_TABLE_LOCAL, RT_TABLE_MAIN, RT_TABLE_DEFAULT}) {
    if (text == tableName(table)) return table;
  }
  KJ_IF_MAYBE (number, text.tryParseAs<uint32_t>()) {
    if (*number != RT_TABLE_UNSPEC) return *number;
  }
  return nullptr;
}

namespace {

kj::String hexText(uint32_t number) {
  return kj::str("0x", kj::hex(number));
}

// "10.1.0.0/16", a single address without its length.
kj::String selectorText(const Prefix& prefix) {
  return prefix.length == prefix.address.bits() ? prefix.address.toString() : prefix.toString();
}

kj::String ipProtocolName(uint8_t protocol) {
  switch (protocol) {
    case IPPROTO_TCP:
      return kj::str("tcp");
    case IPPROTO_UDP:
      return kj::str("udp");
    case IPPROTO_ICMP:
      return kj::str("icmp");
    case IPPROTO_ICMPV6:
      return kj::str("ipv6-icmp");
    default:
      return kj::str(protocol);
  }
}

template <typename T>
void addSpan(kj::Vector<kj::String>& parts, kj::StringPtr name,
             const std::optional<Span<T>>& span) {
  if (!span) return;
  parts.add(span->first == span->last ? kj::str(name, ' ', span->first)
                                      : kj::str(name, ' ', span->first, '-', span->last));
}

void addConditions(kj::Vector<kj::String>& parts, const Rule& rule) {
  if (rule.inverted) parts.add(kj::str("not"));
  parts.add(kj::str("from ", rule.from ? selectorText(*rule.from) : kj::str("all")));
  if (rule.to) parts.add(kj::str("to ", selectorText(*rule.to)));
  if (rule.tos != 0) parts.add(kj::str("tos ", hexText(rule.tos)));
  if (rule.mark != 0 || rule.mask != 0) {
    bool whole = rule.mask == 0xffffffff || rule.mask == 0;
    parts.add(kj::str("fwmark ", hexText(rule.mark), whole ? "" : "/",
                      whole ? kj::String() : hexText(rule.mask)));
  }
  if (!rule.iif.empty()) parts.add(kj::str("iif ", rule.iif.c_str()));
  if (!rule.oif.empty()) parts.add(kj::str("oif ", rule.oif.c_str()));
  addSpan(parts, "uidrange", rule.users);
  if (rule.ipProtocol != 0) parts.add(kj::str("ipproto ", ipProtocolName(rule.ipProtocol)));
  addSpan(parts, "sport", rule.sourcePorts);
  addSpan(parts, "dport", rule.destinationPorts);
  if (rule.more) parts.add(kj::str("(and another condition)"));
}

}  // namespace

kj::String describe(const Rule& rule) {
  kj::Vector<kj::String> parts;
  addConditions(parts, rule);
  switch (rule.action) {
    case FR_ACT_TO_TBL:
      parts.add(
          kj::str("lookup ", rule.l3mdev ? kj::str("[l3mdev-table]") : tableName(rule.table)));
      break;
    case FR_ACT_GOTO:
      parts.add(kj::str("goto ", rule.target));
      break;
    default:
      parts.add(kj::str(ruleActionName(rule.action)));
  }
  if (rule.suppressPrefixLength) {
    parts.add(kj::str("suppress_prefixlength ", *rule.suppressPrefixLength));
  }
  if (rule.suppressGroup) parts.add(kj::str("suppress_ifgroup ", *rule.suppressGroup));
  return kj::strArray(parts, " ");
}

kj::String nameOfRule(const Rule& rule) {
  return kj::str(rule.family == AF_INET ? "inet4 " : "inet6 ", rule.priority, ": ", describe(rule));
}

// --- messages

namespace {

void putPrefix(MessageBuilder& out, uint16_t attribute, const std::optional<Prefix>& prefix) {
  if (prefix) out.put(attribute, prefix->masked().address.bytes());
}

void putNumber(MessageBuilder& out, uint16_t attribute, uint32_t value) {
  if (value != 0) out.putU32(attribute, value);
}

void putLink(MessageBuilder& out, uint16_t attribute, const std::string& name) {
  if (!name.empty()) out.putText(attribute, name.c_str());
}

kj::Array<kj::byte> encodeRule(uint16_t type, uint16_t flags, const Rule& rule) {
  MessageBuilder out(type, flags | NLM_F_REQUEST | NLM_F_ACK);
  auto& header = out.header<fib_rule_hdr>();
  header.family = rule.family;
  header.src_len = rule.from ? rule.from->length : 0;
  header.dst_len = rule.to ? rule.to->length : 0;
  header.table = rule.table < 256 ? rule.table : uint8_t(RT_TABLE_UNSPEC);
  header.action = rule.action;
  out.putU32(FRA_PRIORITY, rule.priority);
  putPrefix(out, FRA_SRC, rule.from);
  putPrefix(out, FRA_DST, rule.to);
  putNumber(out, FRA_FWMARK, rule.mark);
  putNumber(out, FRA_FWMASK, rule.mask);
  putLink(out, FRA_IIFNAME, rule.iif);
  putLink(out, FRA_OIFNAME, rule.oif);
  if (rule.table >= 256) out.putU32(FRA_TABLE, rule.table);
  if (rule.protocol != RTPROT_UNSPEC) out.putU8(FRA_PROTOCOL, rule.protocol);
  return out.finish();
}

}  // namespace

kj::Array<kj::byte> encodeAddRule(const Rule& rule) {
  return encodeRule(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule);
}

kj::Array<kj::byte> encodeDeleteRule(const Rule& rule) {
  return encodeRule(RTM_DELRULE, 0, rule);
}

kj::Array<kj::byte> encodeRuleDump() {
  MessageBuilder out(RTM_GETRULE, NLM_F_REQUEST | NLM_F_DUMP);
  out.header<fib_rule_hdr>();
  return out.finish();
}

namespace {

constexpr uint32_t kAllBits = 0xffffffff;        // of a mark that is given without a mask
constexpr uint32_t kNotSuppressed = 0xffffffff;  // the kernel sends it where nothing is given

std::optional<Prefix> prefixOf(const nlattr* attribute, const Rule& rule, uint8_t length) {
  KJ_IF_MAYBE (ip, Ip::fromBytes(payload(attribute))) {
    if (ip->family() == rule.family && length <= ip->bits()) return Prefix{*ip, length}.masked();
  }
  return {};
}

void readName(const nlattr* attribute, Rule& rule, std::string& target) {
  auto name = text(payload(attribute));
  if (name.size() < IFNAMSIZ) {
    target.assign(name.begin(), name.size());
  } else {
    rule.more = true;
  }
}

void readSuppressed(const nlattr* attribute, std::optional<uint32_t>& target) {
  KJ_IF_MAYBE (value, number<uint32_t>(attribute)) {
    if (*value != kNotSuppressed) target = *value;
  }
}

template <typename T>
void readSpan(const nlattr* attribute, std::optional<Span<T>>& target) {
  KJ_IF_MAYBE (span, number<Span<T>>(attribute)) target = *span;
}

void readAttribute(unsigned type, const nlattr* attribute, const fib_rule_hdr& header, Rule& rule) {
  switch (type) {
    case FRA_SRC:
      rule.from = prefixOf(attribute, rule, header.src_len);
      break;
    case FRA_DST:
      rule.to = prefixOf(attribute, rule, header.dst_len);
      break;
    case FRA_IIFNAME:
      readName(attribute, rule, rule.iif);
      break;
    case FRA_OIFNAME:
      readName(attribute, rule, rule.oif);
      break;
    case FRA_PRIORITY:
      read(attribute, rule.priority);
      break;
    case FRA_FWMARK:
      read(attribute, rule.mark);
      break;
    case FRA_FWMASK:
      read(attribute, rule.mask);
      break;
    case FRA_TABLE:
      read(attribute, rule.table);
      break;
    case FRA_GOTO:
      read(attribute, rule.target);
      break;
    case FRA_PROTOCOL:
      read(attribute, rule.protocol);
      break;
    case FRA_IP_PROTO:
      read(attribute, rule.ipProtocol);
      break;
    case FRA_L3MDEV:
      rule.l3mdev = number<uint8_t>(attribute).orDefault(0) != 0;
      break;
    case FRA_SPORT_RANGE:
      readSpan(attribute, rule.sourcePorts);
      break;
    case FRA_DPORT_RANGE:
      readSpan(attribute, rule.destinationPorts);
      break;
    case FRA_UID_RANGE:
      readSpan(attribute, rule.users);
      break;
    case FRA_SUPPRESS_PREFIXLEN:
      readSuppressed(attribute, rule.suppressPrefixLength);
      break;
    case FRA_SUPPRESS_IFGROUP:
      readSuppressed(attribute, rule.suppressGroup);
      break;
    case FRA_PAD:
      break;
    default:
      rule.more = true;
  }
}

}  // namespace

kj::Maybe<Rule> decodeRule(const nlmsghdr* message) {
  KJ_IF_MAYBE (header, fixedHeader<fib_rule_hdr>(message)) {
    if (header->family != AF_INET && header->family != AF_INET6) return nullptr;
    Rule rule{.family = header->family, .action = header->action, .table = header->table};
    rule.tos = header->tos;
    rule.inverted = (header->flags & FIB_RULE_INVERT) != 0;
    eachAttribute(message, sizeof(fib_rule_hdr), [&](unsigned type, const nlattr* attribute) {
      readAttribute(type, attribute, *header, rule);
    });
    // An attribute that is not a valid prefix must not look like "any".
    rule.more =
        rule.more || (header->src_len > 0 && !rule.from) || (header->dst_len > 0 && !rule.to);
    if (rule.mark != 0 && rule.mask == 0) rule.mask = kAllBits;
    for (auto prefix : {&rule.from, &rule.to}) {
      if (*prefix && (*prefix)->length == 0) prefix->reset();
    }
    return kj::mv(rule);
  }
  return nullptr;
}

}  // namespace talos::netlink
