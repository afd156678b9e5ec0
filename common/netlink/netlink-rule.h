// Routing rules: which table is asked for a route, of what packet (rtnetlink, linux/fib_rules.h;
// ip-rule(8)). They are read, not written. The type, its text and its messages. Pure.
//
// The kernel knows no key of a rule: several may have one priority, and are tried in the order in
// which they came.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include <optional>
#include <string>

#include "common/net/ip.h"

struct nlmsghdr;

namespace talos::netlink {

// Both ends belong to it.
template <typename T>
struct Span {
  T first = 0, last = 0;
  auto operator<=>(const Span&) const = default;
};

struct Rule {
  int family = AF_INET;
  uint32_t priority = 0;                     // the lowest is tried first
  std::optional<Prefix> from = {}, to = {};  // host bits zero; none: any
  uint32_t mark = 0, mask = 0;
  std::string iif = {}, oif = {};  // names of links that need not be there; empty: any
  uint8_t action = FR_ACT_TO_TBL;
  uint32_t table = RT_TABLE_UNSPEC;  // of FR_ACT_TO_TBL
  uint32_t target = 0;               // of FR_ACT_GOTO: the priority to go on with
  uint8_t protocol = RTPROT_UNSPEC;  // who made it

  bool inverted = false;  // of all others
  uint8_t tos = 0;
  bool l3mdev = false;  // the table is that of the link's VRF
  uint8_t ipProtocol = 0;
  std::optional<Span<uint16_t>> sourcePorts = {}, destinationPorts = {};
  std::optional<Span<uint32_t>> users = {};
  std::optional<uint32_t> suppressPrefixLength = {}, suppressGroup = {};
  bool more = false;  // it has a condition that this code does not know

  auto operator<=>(const Rule&) const = default;
};

// "lookup", "goto", "blackhole" ...: of an FR_ACT_*.
kj::StringPtr ruleActionName(uint8_t action);
// "main", or the number.
kj::String tableName(uint32_t table);
// "from 10.1.0.0/16 fwmark 0x1/0xff lookup 5": as ip-rule(8) says it, without the priority.
kj::String describe(const Rule& rule);

kj::Array<kj::byte> encodeRuleDump();
// None for rules of other families (multicast routing).
kj::Maybe<Rule> decodeRule(const nlmsghdr* message);

}  // namespace talos::netlink
