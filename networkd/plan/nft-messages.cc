#include "networkd/plan/nft-messages.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
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

constexpr uint32_t kPortSize = 2, kDestinationPort = 2;  // for TCP and for UDP
constexpr uint32_t kTcpFlags = 13, kIcmpType = 0;
constexpr size_t kNameOfLink = 16;  // with its NUL
constexpr uint8_t kReplyDirection = 1;
constexpr uint64_t kOneSecond = 1;
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
kj::Array<kj::byte> batchMark(uint16_t type) {
  MessageBuilder out(type, NLM_F_REQUEST);
  putHeader(out, AF_UNSPEC).res_id = htons(NFNL_SUBSYS_NFTABLES);
  return out.finish();
}

void putU64Big(MessageBuilder& out, uint16_t attribute, uint64_t value) {
  value = __builtin_bswap64(value);
  out.put(attribute, kj::arrayPtr(reinterpret_cast<const kj::byte*>(&value), sizeof value));
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

// --- rules that the kernel has
bool sameRules(kj::ArrayPtr<const FilterRule> some, kj::ArrayPtr<const FilterRule> others) {
  if (some.size() != others.size()) return false;
  for (auto i : kj::indices(some)) {
    if (some[i].chain != others[i].chain || some[i].comment != others[i].comment) return false;
  }
  return true;
}

kj::Array<kj::byte> encodeRuleDump(kj::StringPtr table) {
  MessageBuilder out(typeOf(NFT_MSG_GETRULE), NLM_F_REQUEST | NLM_F_DUMP);
  putHeader(out, NFPROTO_INET);
  out.putText(NFTA_RULE_TABLE, table);
  return out.finish();
}

kj::Maybe<FilterRule> readRule(const netlink::Generic& message, kj::StringPtr table) {
  if (message.family != typeOf(NFT_MSG_NEWRULE)) return nullptr;
  FilterRule rule;
  kj::String found;
  netlink::eachAttribute(message, [&](unsigned type, const nlattr* attribute) {
    auto bytes = netlink::payload(attribute);
    if (type == NFTA_RULE_TABLE) found = netlink::text(bytes);
    if (type == NFTA_RULE_CHAIN) rule.chain = netlink::text(bytes);
    if (type == NFTA_RULE_USERDATA) rule.comment = commentOf(bytes);
    if (type != NFTA_RULE_EXPRESSIONS) return;
    netlink::eachNested(attribute, [&](unsigned, const nlattr* expression) {
      rule.packets += packetsOf(expression);
    });
  });
  if (found != table) return nullptr;
  return kj::mv(rule);
}

// --- expressions
template <typename F>
void Expressions::each(kj::StringPtr name, F&& fill) {
  out.nest(NFTA_LIST_ELEM, [&] {
    out.putText(NFTA_EXPR_NAME, name);
    out.nest(NFTA_EXPR_DATA, kj::fwd<F>(fill));
  });
}

void Expressions::load(uint32_t base, uint32_t offset, uint32_t size) {
  each("payload", [&] {
    out.putU32Big(NFTA_PAYLOAD_DREG, NFT_REG_1);
    out.putU32Big(NFTA_PAYLOAD_BASE, base);
    out.putU32Big(NFTA_PAYLOAD_OFFSET, offset);
    out.putU32Big(NFTA_PAYLOAD_LEN, size);
  });
}

void Expressions::meta(uint32_t key, kj::ArrayPtr<const kj::byte> wanted) {
  each("meta", [&] {
    out.putU32Big(NFTA_META_KEY, key);
    out.putU32Big(NFTA_META_DREG, NFT_REG_1);
  });
  compare(NFT_CMP_EQ, wanted);
}

void Expressions::mask(kj::ArrayPtr<const kj::byte> bits) {
  auto none = kj::heapArray<kj::byte>(bits.size());
  memset(none.begin(), 0, none.size());
  each("bitwise", [&] {
    out.putU32Big(NFTA_BITWISE_SREG, NFT_REG_1);
    out.putU32Big(NFTA_BITWISE_DREG, NFT_REG_1);
    out.putU32Big(NFTA_BITWISE_LEN, static_cast<uint32_t>(bits.size()));
    out.nest(NFTA_BITWISE_MASK, [&] { out.put(NFTA_DATA_VALUE, bits); });
    out.nest(NFTA_BITWISE_XOR, [&] { out.put(NFTA_DATA_VALUE, none); });
  });
}

void Expressions::compare(uint32_t operation, kj::ArrayPtr<const kj::byte> value) {
  each("cmp", [&] {
    out.putU32Big(NFTA_CMP_SREG, NFT_REG_1);
    out.putU32Big(NFTA_CMP_OP, operation);
    out.nest(NFTA_CMP_DATA, [&] { out.put(NFTA_DATA_VALUE, value); });
  });
}

void Expressions::family(uint8_t wanted) {
  meta(NFT_META_NFPROTO, kj::arrayPtr(&wanted, 1));
}

void Expressions::transport(uint8_t wanted) {
  meta(NFT_META_L4PROTO, kj::arrayPtr(&wanted, 1));
}

void Expressions::arrivesAt(kj::StringPtr link) {
  kj::byte name[kNameOfLink] = {};
  KJ_REQUIRE(link.size() < kNameOfLink, link);
  memcpy(name, link.begin(), link.size());
  meta(NFT_META_IIFNAME, name);
}

void Expressions::address(uint32_t offset, const Prefix& network) {
  auto bits = network.address.bits();
  if (network.length == 0) return;
  load(NFT_PAYLOAD_NETWORK_HEADER, offset, bits / 8);
  if (network.length < bits) {
    auto bytes = kj::heapArray<kj::byte>(bits / 8);
    for (auto i : kj::indices(bytes)) {
      auto ones = network.length <= i * 8 ? 0 : kj::min(network.length - i * 8, size_t{8});
      bytes[i] = static_cast<kj::byte>(0xff00 >> ones);
    }
    mask(bytes);
  }
  auto first = network.masked();
  compare(NFT_CMP_EQ, first.address.bytes());
}

void Expressions::source(const Prefix& network) {
  bool v4 = network.address.family() == AF_INET;
  address(v4 ? offsetof(iphdr, saddr) : offsetof(ip6_hdr, ip6_src), network);
}

void Expressions::destination(const Prefix& network) {
  bool v4 = network.address.family() == AF_INET;
  address(v4 ? offsetof(iphdr, daddr) : offsetof(ip6_hdr, ip6_dst), network);
}

void Expressions::ports(uint16_t first, uint16_t last) {
  const kj::byte lowest[] = {kj::byte(first >> 8), kj::byte(first)},
                 highest[] = {kj::byte(last >> 8), kj::byte(last)};
  load(NFT_PAYLOAD_TRANSPORT_HEADER, kDestinationPort, kPortSize);
  if (first == last) return compare(NFT_CMP_EQ, lowest);
  compare(NFT_CMP_GTE, lowest);
  compare(NFT_CMP_LTE, highest);
}

void Expressions::types(uint8_t first, uint8_t last) {
  load(NFT_PAYLOAD_TRANSPORT_HEADER, kIcmpType, 1);
  if (first == last) return compare(NFT_CMP_EQ, kj::arrayPtr(&first, 1));
  compare(NFT_CMP_GTE, kj::arrayPtr(&first, 1));
  compare(NFT_CMP_LTE, kj::arrayPtr(&last, 1));
}

void Expressions::connection(uint32_t states) {
  each("ct", [&] {
    out.putU32Big(NFTA_CT_DREG, NFT_REG_1);
    out.putU32Big(NFTA_CT_KEY, NFT_CT_STATE);
  });
  // The register holds a number in this machine's byte order.
  mask(kj::arrayPtr(reinterpret_cast<const kj::byte*>(&states), sizeof states));
  const kj::byte none[sizeof states] = {};
  compare(NFT_CMP_NEQ, none);
}

void Expressions::reply() {
  each("ct", [&] {
    out.putU32Big(NFTA_CT_DREG, NFT_REG_1);
    out.putU32Big(NFTA_CT_KEY, NFT_CT_DIRECTION);
  });
  compare(NFT_CMP_EQ, kj::arrayPtr(&kReplyDirection, 1));
}

void Expressions::passesBy() {
  each("fib", [&] {
    out.putU32Big(NFTA_FIB_DREG, NFT_REG_1);
    out.putU32Big(NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
    out.putU32Big(NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
  });
  const uint32_t local = RTN_LOCAL;  // in this machine's byte order
  compare(NFT_CMP_NEQ, kj::arrayPtr(reinterpret_cast<const kj::byte*>(&local), sizeof local));
}

void Expressions::atMost(uint32_t perSecond, uint32_t burst) {
  each("limit", [&] {
    putU64Big(out, NFTA_LIMIT_RATE, perSecond);
    putU64Big(out, NFTA_LIMIT_UNIT, kOneSecond);
    out.putU32Big(NFTA_LIMIT_BURST, burst);
    out.putU32Big(NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
    out.putU32Big(NFTA_LIMIT_FLAGS, 0);
  });
}

void Expressions::underWay() {
  const kj::byte flags[] = {TH_SYN | TH_ACK}, begins[] = {TH_SYN};
  load(NFT_PAYLOAD_TRANSPORT_HEADER, kTcpFlags, 1);
  mask(flags);
  compare(NFT_CMP_NEQ, begins);
}

void Expressions::count() {
  each("counter", [] {});
}

void Expressions::jump(kj::StringPtr chain) {
  verdict(static_cast<uint32_t>(NFT_JUMP), chain);
}

void Expressions::goBack() {
  verdict(static_cast<uint32_t>(NFT_RETURN), nullptr);
}

void Expressions::accept() {
  verdict(NF_ACCEPT, nullptr);
}

void Expressions::drop() {
  verdict(NF_DROP, nullptr);
}

void Expressions::verdict(uint32_t code, kj::StringPtr chain) {
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

// --- a table
TableBatch::TableBatch(kj::StringPtr table) : table(table) {
  messages.add(batchMark(NFNL_MSG_BATCH_BEGIN));
  // Creates the table first: the kernel cannot remove a missing table.
  addTable();
  messages.add(encodeTable(NFT_MSG_DELTABLE, 0));
}

kj::Array<kj::byte> TableBatch::encodeTable(unsigned message, uint16_t flags) {
  MessageBuilder out(typeOf(message), static_cast<uint16_t>(NLM_F_REQUEST | flags));
  putHeader(out, NFPROTO_INET);
  out.putText(NFTA_TABLE_NAME, table);
  return out.finish();
}

void TableBatch::addTable() {
  messages.add(encodeTable(NFT_MSG_NEWTABLE, NLM_F_CREATE));
}

void TableBatch::addChain(kj::StringPtr name, kj::Maybe<Hook> hook) {
  MessageBuilder out(typeOf(NFT_MSG_NEWCHAIN), NLM_F_REQUEST | NLM_F_CREATE);
  putHeader(out, NFPROTO_INET);
  out.putText(NFTA_CHAIN_TABLE, table);
  out.putText(NFTA_CHAIN_NAME, name);
  KJ_IF_MAYBE (at, hook) {
    out.nest(NFTA_CHAIN_HOOK, [&] {
      out.putU32Big(NFTA_HOOK_HOOKNUM, at->number);
      out.putU32Big(NFTA_HOOK_PRIORITY, static_cast<uint32_t>(at->priority));
    });
    out.putU32Big(NFTA_CHAIN_POLICY, at->drops ? NF_DROP : NF_ACCEPT);
    out.putText(NFTA_CHAIN_TYPE, "filter");
  }
  messages.add(out.finish());
}

void TableBatch::addRule(kj::StringPtr chain, kj::StringPtr comment,
                         kj::FunctionParam<void(Expressions)> fill) {
  MessageBuilder out(typeOf(NFT_MSG_NEWRULE), NLM_F_REQUEST | NLM_F_CREATE | NLM_F_APPEND);
  putHeader(out, NFPROTO_INET);
  out.putText(NFTA_RULE_TABLE, table);
  out.putText(NFTA_RULE_CHAIN, chain);
  out.nest(NFTA_RULE_EXPRESSIONS, [&] { fill(Expressions(out)); });
  kj::Vector<kj::byte> data;
  data.add(kCommentType);
  data.add(static_cast<kj::byte>(comment.size() + 1));
  data.addAll(kj::arrayPtr(comment.begin(), comment.size() + 1).asBytes());
  out.put(NFTA_RULE_USERDATA, data);
  messages.add(out.finish());
}

kj::Vector<kj::Array<kj::byte>> TableBatch::finish() {
  // The acknowledgement is requested for the last change, which the kernel acknowledges when it has
  // applied the batch; not every kernel acknowledges the batch's end message.
  auto& last = messages.back();
  reinterpret_cast<nlmsghdr*>(last.begin())->nlmsg_flags |= NLM_F_ACK;
  kj::Vector<kj::byte> both;
  both.addAll(last);
  both.addAll(batchMark(NFNL_MSG_BATCH_END));
  last = both.releaseAsArray();
  return kj::mv(messages);
}

}  // namespace talos::networkd
