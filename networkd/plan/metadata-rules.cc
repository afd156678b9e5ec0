#include "networkd/plan/metadata-rules.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>

#include "common/netlink/netlink-generic.h"

namespace talos::networkd {
namespace {

using netlink::MessageBuilder;

constexpr kj::StringPtr kForward = "forward"_kj, kMetadata = "metadata"_kj;
constexpr int32_t kPriority = -10;  // before "filter" (0), after the translation of services
constexpr uint16_t kDns = 53, kNtp = 123;
constexpr uint32_t kPortSize = 2, kDestinationPort = 2;  // for TCP and for UDP
constexpr uint32_t kTcpFlags = 13;
// A comment in the data of a rule, as nft(8) writes it: type, length, and text with its NUL.
constexpr kj::byte kCommentType = 0;

uint16_t typeOf(unsigned message) {
  return static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message);
}

nfgenmsg& putHeader(MessageBuilder& out, uint8_t family) {
  auto& header = out.header<nfgenmsg>();
  header.nfgen_family = family;
  header.version = NFNETLINK_V0;
  return header;
}

// Builds the begin or the end of a batch.
kj::Array<kj::byte> batch(uint16_t type) {
  MessageBuilder out(type, NLM_F_REQUEST);
  putHeader(out, AF_UNSPEC).res_id = htons(NFNL_SUBSYS_NFTABLES);
  return out.finish();
}

kj::Array<kj::byte> table(unsigned message, uint16_t flags) {
  MessageBuilder out(typeOf(message), static_cast<uint16_t>(NLM_F_REQUEST | flags));
  putHeader(out, NFPROTO_INET);
  out.putText(NFTA_TABLE_NAME, kMetadataTable);
  return out.finish();
}

kj::Array<kj::byte> chain(kj::StringPtr name, bool atForward) {
  MessageBuilder out(typeOf(NFT_MSG_NEWCHAIN), NLM_F_REQUEST | NLM_F_CREATE);
  putHeader(out, NFPROTO_INET);
  out.putText(NFTA_CHAIN_TABLE, kMetadataTable);
  out.putText(NFTA_CHAIN_NAME, name);
  if (atForward) {
    out.nest(NFTA_CHAIN_HOOK, [&] {
      out.putU32Big(NFTA_HOOK_HOOKNUM, NF_INET_FORWARD);
      out.putU32Big(NFTA_HOOK_PRIORITY, static_cast<uint32_t>(kPriority));
    });
    out.putU32Big(NFTA_CHAIN_POLICY, NF_ACCEPT);
    out.putText(NFTA_CHAIN_TYPE, "filter");
  }
  return out.finish();
}

// The expressions of a rule; the kernel evaluates them until one does not match. Each loads its
// operand into the first register.
class Expressions {
 public:
  explicit Expressions(MessageBuilder& out) : out(out) {}

  void family(uint8_t wanted) { meta(NFT_META_NFPROTO, wanted); }
  void transport(uint8_t wanted) { meta(NFT_META_L4PROTO, wanted); }
  void destination(const Ip& ip) {
    bool v4 = ip.family() == AF_INET;
    load(NFT_PAYLOAD_NETWORK_HEADER, v4 ? offsetof(iphdr, daddr) : offsetof(ip6_hdr, ip6_dst),
         ip.bytes().size());
    compare(NFT_CMP_EQ, ip.bytes());
  }
  void port(uint16_t wanted) {
    const kj::byte bytes[] = {kj::byte(wanted >> 8), kj::byte(wanted)};
    load(NFT_PAYLOAD_TRANSPORT_HEADER, kDestinationPort, kPortSize);
    compare(NFT_CMP_EQ, bytes);
  }
  // Matches TCP that does not open a connection.
  void underWay() {
    const kj::byte mask[] = {TH_SYN | TH_ACK}, none[] = {0}, begins[] = {TH_SYN};
    load(NFT_PAYLOAD_TRANSPORT_HEADER, kTcpFlags, 1);
    each("bitwise", [&] {
      out.putU32Big(NFTA_BITWISE_SREG, NFT_REG_1);
      out.putU32Big(NFTA_BITWISE_DREG, NFT_REG_1);
      out.putU32Big(NFTA_BITWISE_LEN, 1);
      out.nest(NFTA_BITWISE_MASK, [&] { out.put(NFTA_DATA_VALUE, mask); });
      out.nest(NFTA_BITWISE_XOR, [&] { out.put(NFTA_DATA_VALUE, none); });
    });
    compare(NFT_CMP_NEQ, begins);
  }
  void count() {
    each("counter", [] {});
  }
  void jump(kj::StringPtr chain) { verdict(static_cast<uint32_t>(NFT_JUMP), chain); }
  void accept() { verdict(NF_ACCEPT, nullptr); }
  void drop() { verdict(NF_DROP, nullptr); }

 private:
  MessageBuilder& out;

  template <typename F>
  void each(kj::StringPtr name, F&& fill) {
    out.nest(NFTA_LIST_ELEM, [&] {
      out.putText(NFTA_EXPR_NAME, name);
      out.nest(NFTA_EXPR_DATA, kj::fwd<F>(fill));
    });
  }
  void meta(uint32_t key, uint8_t wanted) {
    each("meta", [&] {
      out.putU32Big(NFTA_META_KEY, key);
      out.putU32Big(NFTA_META_DREG, NFT_REG_1);
    });
    compare(NFT_CMP_EQ, kj::arrayPtr(&wanted, 1));
  }
  void load(uint32_t base, uint32_t offset, uint32_t size) {
    each("payload", [&] {
      out.putU32Big(NFTA_PAYLOAD_DREG, NFT_REG_1);
      out.putU32Big(NFTA_PAYLOAD_BASE, base);
      out.putU32Big(NFTA_PAYLOAD_OFFSET, offset);
      out.putU32Big(NFTA_PAYLOAD_LEN, size);
    });
  }
  void compare(uint32_t operation, kj::ArrayPtr<const kj::byte> value) {
    each("cmp", [&] {
      out.putU32Big(NFTA_CMP_SREG, NFT_REG_1);
      out.putU32Big(NFTA_CMP_OP, operation);
      out.nest(NFTA_CMP_DATA, [&] { out.put(NFTA_DATA_VALUE, value); });
    });
  }
  void verdict(uint32_t code, kj::StringPtr chain) {
    each("immediate", [&] {
      out.putU32Big(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
      out.nest(NFTA_IMMEDIATE_DATA, [&] {
        out.nest(NFTA_DATA_VERDICT, [&] {
          out.putU32Big(NFTA_VERDICT_CODE, code);
          if (chain != nullptr) out.putText(NFTA_VERDICT_CHAIN, chain);
        });
      });
    });
  }
};

// Calls handle(chain, comment, fill) for each rule, in their order; fill(Expressions) adds its
// expressions.
template <typename F>
void eachRule(kj::ArrayPtr<const Ip> addresses, F&& handle) {
  if (addresses.size() == 0) return;
  for (auto& ip : addresses) {
    handle(kForward, kj::str("to ", ip), [&ip](Expressions rule) {
      rule.family(ip.family() == AF_INET ? NFPROTO_IPV4 : NFPROTO_IPV6);
      rule.destination(ip);
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
      rule.port(port);
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

template <typename F>
kj::Array<kj::byte> rule(kj::StringPtr chain, kj::StringPtr comment, F&& fill) {
  MessageBuilder out(typeOf(NFT_MSG_NEWRULE), NLM_F_REQUEST | NLM_F_CREATE | NLM_F_APPEND);
  putHeader(out, NFPROTO_INET);
  out.putText(NFTA_RULE_TABLE, kMetadataTable);
  out.putText(NFTA_RULE_CHAIN, chain);
  out.nest(NFTA_RULE_EXPRESSIONS, [&] { fill(Expressions(out)); });
  kj::Vector<kj::byte> data;
  data.add(kCommentType);
  data.add(static_cast<kj::byte>(comment.size() + 1));
  data.addAll(kj::arrayPtr(comment.begin(), comment.size() + 1).asBytes());
  out.put(NFTA_RULE_USERDATA, data);
  return out.finish();
}

// Returns the packets that the expression has counted; 0 if it is not a counter.
uint64_t packetsOf(const nlattr* expression) {
  kj::String name;
  uint64_t packets = 0;
  netlink::eachNested(expression, [&](unsigned type, const nlattr* attribute) {
    if (type == NFTA_EXPR_NAME) name = netlink::text(netlink::payload(attribute));
    if (type != NFTA_EXPR_DATA || name != "counter") return;
    netlink::eachNested(attribute, [&](unsigned inner, const nlattr* value) {
      uint64_t big = 0;
      if (inner != NFTA_COUNTER_PACKETS) return;
      netlink::read(value, big);
      packets = __builtin_bswap64(big);
    });
  });
  return packets;
}

kj::String commentOf(kj::ArrayPtr<const kj::byte> data) {
  if (data.size() < 2 || data[0] != kCommentType) return kj::str();
  return netlink::text(data.slice(2, kj::min(data.size(), size_t{2} + data[1])));
}

}  // namespace

kj::Vector<MetadataRule> metadataRules(kj::ArrayPtr<const Ip> addresses) {
  kj::Vector<MetadataRule> rules;
  eachRule(addresses, [&](kj::StringPtr chain, kj::String comment, auto&&) {
    rules.add(MetadataRule{kj::str(chain), kj::mv(comment)});
  });
  return rules;
}

kj::Vector<kj::Array<kj::byte>> encodeMetadataRules(kj::ArrayPtr<const Ip> addresses) {
  kj::Vector<kj::Array<kj::byte>> messages;
  messages.add(batch(NFNL_MSG_BATCH_BEGIN));
  // Creates the table first: the kernel cannot remove a missing table.
  messages.add(table(NFT_MSG_NEWTABLE, NLM_F_CREATE));
  messages.add(table(NFT_MSG_DELTABLE, 0));
  if (addresses.size() > 0) {
    messages.add(table(NFT_MSG_NEWTABLE, NLM_F_CREATE));
    messages.add(chain(kForward, true));
    messages.add(chain(kMetadata, false));
    eachRule(addresses, [&](kj::StringPtr chain, kj::String comment, auto&& fill) {
      messages.add(rule(chain, comment, fill));
    });
  }
  // The acknowledgement is requested for the last change, which the kernel acknowledges when it has
  // applied the batch; not every kernel acknowledges the batch's end message.
  auto& last = messages.back();
  reinterpret_cast<nlmsghdr*>(last.begin())->nlmsg_flags |= NLM_F_ACK;
  kj::Vector<kj::byte> both;
  both.addAll(last);
  both.addAll(batch(NFNL_MSG_BATCH_END));
  last = both.releaseAsArray();
  return messages;
}

kj::Array<kj::byte> encodeRuleDump() {
  MessageBuilder out(typeOf(NFT_MSG_GETRULE), NLM_F_REQUEST | NLM_F_DUMP);
  putHeader(out, NFPROTO_INET);
  out.putText(NFTA_RULE_TABLE, kMetadataTable);
  return out.finish();
}

kj::Maybe<MetadataRule> readRule(const netlink::Generic& message) {
  if (message.family != typeOf(NFT_MSG_NEWRULE)) return nullptr;
  MetadataRule rule;
  kj::String table;
  netlink::eachAttribute(message, [&](unsigned type, const nlattr* attribute) {
    auto bytes = netlink::payload(attribute);
    if (type == NFTA_RULE_TABLE) table = netlink::text(bytes);
    if (type == NFTA_RULE_CHAIN) rule.chain = netlink::text(bytes);
    if (type == NFTA_RULE_USERDATA) rule.comment = commentOf(bytes);
    if (type != NFTA_RULE_EXPRESSIONS) return;
    netlink::eachNested(attribute, [&](unsigned, const nlattr* expression) {
      rule.packets += packetsOf(expression);
    });
  });
  if (table != kMetadataTable) return nullptr;
  return kj::mv(rule);
}

bool sameRules(kj::ArrayPtr<const MetadataRule> some, kj::ArrayPtr<const MetadataRule> others) {
  if (some.size() != others.size()) return false;
  for (auto i : kj::indices(some)) {
    if (some[i].chain != others[i].chain || some[i].comment != others[i].comment) return false;
  }
  return true;
}

}  // namespace talos::networkd
