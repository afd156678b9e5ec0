// Routing rules, which select the table for the route of a packet (rtnetlink, linux/fib_rules.h;
// ip-rule(8)). Their type, text and messages. Pure.
//
// Rules have no key in the kernel: several may have one priority, and are tried in the order in
// which they were added. Only the fields above `inverted` are written.
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

// A range that includes both ends.
template <typename T>
struct Span {
  T first = 0, last = 0;
  auto operator<=>(const Span&) const = default;
};

struct Rule {
  int family = AF_INET;
  uint32_t priority = 0;                     // the lowest is tried first
  std::optional<Prefix> from = {}, to = {};  // host bits zero; nullopt for any
  uint32_t mark = 0, mask = 0;
  std::string iif = {}, oif = {};  // names of links, which need not exist; empty for any
  uint8_t action = FR_ACT_TO_TBL;
  uint32_t table = RT_TABLE_UNSPEC;  // for FR_ACT_TO_TBL
  uint32_t target = 0;               // for FR_ACT_GOTO: the priority to continue with
  uint8_t protocol = RTPROT_UNSPEC;  // creator of the rule

  bool inverted = false;  // applies to all other packets
  uint8_t tos = 0;
  bool l3mdev = false;  // the table is the one of the link's VRF
  uint8_t ipProtocol = 0;
  std::optional<Span<uint16_t>> sourcePorts = {}, destinationPorts = {};
  std::optional<Span<uint32_t>> users = {};
  std::optional<uint32_t> suppressPrefixLength = {}, suppressGroup = {};
  bool more = false;  // has a condition that this code does not know

  auto operator<=>(const Rule&) const = default;
};

// Returns "lookup", "goto", "blackhole" ... for an FR_ACT_*.
kj::StringPtr ruleActionName(uint8_t action);
// Returns "main", or the number.
kj::String tableName(uint32_t table);
// Reads such a text; nullptr for others, and for 0, which is no table.
kj::Maybe<uint32_t> parseTable(kj::StringPtr text);
// Returns "from 10.1.0.0/16 fwmark 0x1/0xff lookup 5", as ip-rule(8) prints it, without the
// priority.
kj::String describe(const Rule& rule);
// Returns "inet4 1500: from 10.1.0.0/16 lookup 5".
kj::String nameOfRule(const Rule& rule);

kj::Array<kj::byte> encodeRuleDump();
// Returns RTM_NEWRULE with the flags for a new rule, or RTM_DELRULE.
kj::Array<kj::byte> encodeAddRule(const Rule& rule);
kj::Array<kj::byte> encodeDeleteRule(const Rule& rule);
// Returns nullptr for rules of other families (multicast routing).
kj::Maybe<Rule> decodeRule(const nlmsghdr* message);

}  // namespace talos::netlink
