// Helpers for tests: messages of rtnetlink read at once, and requests that only tests make of a
// kernel: links that move and are renamed, routing rules and neighbours.
#pragma once

#include <kj/debug.h>
#include <linux/if_link.h>

#include "common/netlink/netlink-codec.h"
#include "common/netlink/netlink-socket.h"

namespace talos::netlink {

constexpr uint16_t kAsk = NLM_F_REQUEST | NLM_F_ACK, kMake = kAsk | NLM_F_CREATE | NLM_F_EXCL;

// Messages of a datagram.
struct Decoded {
  kj::Vector<Message> messages;
  kj::Maybe<kj::String> problem;  // error that stopped reading before the end
};
inline Decoded decode(kj::ArrayPtr<const kj::byte> datagram, Format format = Format::kRoute) {
  Decoded result;
  result.problem = eachMessage(datagram, format,
                               [&](Message&& message) { result.messages.add(kj::mv(message)); });
  return result;
}
inline Decoded decodeGeneric(kj::ArrayPtr<const kj::byte> datagram) {
  return decode(datagram, Format::kGeneric);
}

// Sends a request to the kernel of this thread's namespace.
inline void demand(kj::Array<kj::byte> request) {
  Socket socket(NETLINK_ROUTE, 5 * kj::SECONDS);
  auto acks = socket.transact(kj::arrayPtr(&request, 1));
  KJ_REQUIRE(acks[0].code == 0, acks[0].code, acks[0].message);
}

// Makes a cable with an end in each of two links. Returns the index of the first.
inline unsigned addVeth(Kernel& kernel, kj::StringPtr name, kj::StringPtr peer) {
  return addLink(kernel, name, Veth{kj::str(peer)});
}

inline void setMaster(Kernel& kernel, unsigned index, unsigned master) {
  change(kernel, SetLink{.index = index, .master = master});
}

inline void rename(unsigned link, kj::StringPtr name) {
  MessageBuilder out(RTM_NEWLINK, kAsk);
  out.header<ifinfomsg>().ifi_index = link;
  out.putText(IFLA_IFNAME, name);
  demand(out.finish());
}

// Moves a link to the namespace `place`: an open /proc/<pid>/ns/net.
inline void move(unsigned link, int place) {
  MessageBuilder out(RTM_NEWLINK, kAsk);
  out.header<ifinfomsg>().ifi_index = link;
  out.putU32(IFLA_NET_NS_FD, place);
  demand(out.finish());
}

// Returns RTM_NEWRULE or RTM_DELRULE.
inline kj::Array<kj::byte> ruleMessage(uint16_t type, const Rule& rule) {
  MessageBuilder out(type, type == RTM_NEWRULE ? kMake : kAsk);
  auto& header = out.header<fib_rule_hdr>();
  header.family = rule.family;
  header.src_len = rule.from ? rule.from->length : 0;
  header.dst_len = rule.to ? rule.to->length : 0;
  header.tos = rule.tos;
  header.table = rule.table < 256 ? rule.table : uint8_t(RT_TABLE_UNSPEC);
  header.action = rule.action;
  header.flags = rule.inverted ? FIB_RULE_INVERT : 0;
  auto raw = [&](uint16_t attribute, auto& value) {
    if (value) out.put(attribute, kj::arrayPtr(&*value, 1).asBytes());
  };
  auto number = [&](uint16_t attribute, uint32_t value) {
    if (value != 0) out.putU32(attribute, value);
  };
  out.putU32(FRA_PRIORITY, rule.priority);
  if (rule.from) out.put(FRA_SRC, rule.from->address.bytes());
  if (rule.to) out.put(FRA_DST, rule.to->address.bytes());
  if (!rule.iif.empty()) out.putText(FRA_IIFNAME, rule.iif.c_str());
  if (!rule.oif.empty()) out.putText(FRA_OIFNAME, rule.oif.c_str());
  number(FRA_FWMARK, rule.mark);
  number(FRA_FWMASK, rule.mask);
  if (rule.l3mdev) out.putU8(FRA_L3MDEV, 1);
  if (rule.ipProtocol != 0) out.putU8(FRA_IP_PROTO, rule.ipProtocol);
  raw(FRA_SPORT_RANGE, rule.sourcePorts);
  raw(FRA_DPORT_RANGE, rule.destinationPorts);
  raw(FRA_UID_RANGE, rule.users);
  number(FRA_GOTO, rule.target);
  number(FRA_TABLE, rule.table);
  if (rule.protocol != RTPROT_UNSPEC) out.putU8(FRA_PROTOCOL, rule.protocol);
  raw(FRA_SUPPRESS_PREFIXLEN, rule.suppressPrefixLength);
  raw(FRA_SUPPRESS_IFGROUP, rule.suppressGroup);
  return out.finish();
}

// Returns RTM_NEWNEIGH or RTM_DELNEIGH.
inline kj::Array<kj::byte> neighbourMessage(uint16_t type, const Neighbour& neighbour) {
  MessageBuilder out(type, type == RTM_NEWNEIGH ? kMake : kAsk);
  auto& header = out.header<ndmsg>();
  header.ndm_family = neighbour.address.family();
  header.ndm_ifindex = neighbour.link;
  header.ndm_state = neighbour.state;
  header.ndm_flags = neighbour.flags;
  out.put(NDA_DST, neighbour.address.bytes());
  if (!neighbour.hardwareAddress.empty()) out.put(NDA_LLADDR, neighbour.hardware());
  if (neighbour.protocol != 0) out.putU8(NDA_PROTOCOL, neighbour.protocol);
  if (neighbour.moreFlags != 0) out.putU32(NDA_FLAGS_EXT, neighbour.moreFlags);
  return out.finish();
}

}  // namespace talos::netlink
