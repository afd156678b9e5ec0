// Routing rules and neighbours in the form of messages. netlink-rule-kernel-test.cc tests the
// messages that Linux sends.
#include "common/netlink/netlink-rule.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <linux/netlink.h>

#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"

namespace talos::netlink {
namespace {

const std::vector<kj::byte> kRuleMac = {0x52, 0x54, 0, 0, 0, 1};

// Returns a rule with every field set.
Rule full() {
  Rule rule{.family = AF_INET6,
            .priority = 70000,
            .from = prefix("fd00:1::/32"),
            .to = prefix("fd00:2::1/128"),
            .mark = 0x100,
            .mask = 0xff00,
            .iif = "eth0",
            .oif = "fifteen-letters",
            .table = 1000,
            .protocol = 116};
  rule.inverted = true;
  rule.tos = 0x10;
  rule.ipProtocol = 6;
  rule.sourcePorts = Span<uint16_t>{1, 1024};
  rule.destinationPorts = Span<uint16_t>{443, 443};
  rule.users = Span<uint32_t>{0, 0xfffffffe};
  rule.suppressPrefixLength = 0;
  rule.suppressGroup = 116;
  return rule;
}

// Catches: fields lost or swapped.
TEST(NetlinkRule, IsReadWhole) {
  Rule gone{.family = AF_INET, .priority = 1, .action = FR_ACT_GOTO, .target = 7};
  Rule drop{.priority = 0xffffffff, .iif = "lo", .action = FR_ACT_BLACKHOLE};
  Rule vrf{.priority = 1000, .table = 0};
  vrf.l3mdev = true;
  for (auto& rule : {full(), gone, drop, vrf}) {
    auto decoded = decode(ruleMessage(RTM_NEWRULE, rule));
    ASSERT_EQ(decoded.messages.size(), 1u);
    EXPECT_TRUE(decoded.messages[0].body.get<Rule>() == rule) << describe(rule).cStr();
  }
}

// Catches: a condition that is not sent, or sent as another one, so that the rule holds for other
// packets.
TEST(NetlinkRule, WhatIsSentIsReadAsTheSame) {
  Rule all{.priority = 1, .table = RT_TABLE_MAIN};
  Rule four{.priority = 1500,
            .from = prefix("10.77.0.0/16"),
            .to = prefix("10.9.0.1/32"),
            .mark = 1,
            .mask = 0xff,
            .iif = "eth0",
            .oif = "fifteen-letters",
            .table = 1000,
            .protocol = 116};
  Rule six{.family = AF_INET6, .priority = 7, .to = prefix("fd00::/8"), .table = 255};
  Rule drop{.priority = 0xffffffff, .action = FR_ACT_PROHIBIT};
  for (auto& rule : {all, four, six, drop}) {
    for (auto& change : {Change(AddRule{rule}), Change(DeleteRule{rule})}) {
      auto request = encode(change);
      auto header = reinterpret_cast<nlmsghdr*>(request.begin());
      EXPECT_EQ(header->nlmsg_type, change.is<AddRule>() ? RTM_NEWRULE : RTM_DELRULE);
      bool exclusive = (header->nlmsg_flags & NLM_F_EXCL) != 0;
      EXPECT_EQ(exclusive, change.is<AddRule>());
      header->nlmsg_type = RTM_NEWRULE;
      auto decoded = decode(request);
      ASSERT_EQ(decoded.messages.size(), 1u);
      EXPECT_TRUE(decoded.messages[0].body.get<Rule>() == rule) << describe(rule).cStr();
    }
  }
  EXPECT_STREQ(describe(Change(AddRule{four})).cStr(),
               "add rule inet4 1500: from 10.77.0.0/16 to 10.9.0.1 fwmark 0x1/0xff iif eth0 oif "
               "fifteen-letters lookup 1000");
}

// Catches: a text that is taken for another table, as 0 for the main one.
TEST(NetlinkRule, TablesHaveNamesOrNumbers) {
  for (uint32_t table : {1u, 77u, 252u, 253u, 254u, 255u, 0xffffffffu}) {
    EXPECT_TRUE(parseTable(tableName(table)) == table) << table;
  }
  for (auto text : {"", "0", "-1", "red", "4294967296"}) {
    EXPECT_TRUE(parseTable(text) == nullptr) << text;
  }
}

TEST(NetlinkNeighbour, IsReadWhole) {
  Neighbour six{.link = 7,
                .address = ip("fe80::1"),
                .hardwareAddress = kRuleMac,
                .state = NUD_STALE,
                .flags = NTF_ROUTER | NTF_EXT_LEARNED,
                .moreFlags = NTF_EXT_MANAGED,
                .protocol = 116};
  Neighbour bare{.link = 1, .address = ip("10.0.0.1"), .state = NUD_FAILED};
  for (auto& neighbour : {six, bare}) {
    auto decoded = decode(neighbourMessage(RTM_NEWNEIGH, neighbour));
    ASSERT_EQ(decoded.messages.size(), 1u);
    EXPECT_TRUE(decoded.messages[0].body.get<Neighbour>() == neighbour);
  }
}

// Catches: a rule that is printed differently than by ip-rule(8).
TEST(NetlinkRule, InTheWordsOfIp) {
  Rule plain{.table = RT_TABLE_MAIN}, drop{.iif = "eth0", .action = FR_ACT_PROHIBIT};
  Rule marked{.from = prefix("10.1.0.1/32"), .mark = 1, .mask = 255, .table = 5};
  Rule jump{.priority = 7, .action = FR_ACT_GOTO, .target = 9}, last{.table = RT_TABLE_DEFAULT};
  last.more = true;
  struct {
    const Rule& rule;
    kj::StringPtr text;
  } rows[] = {
      {plain, "from all lookup main"},
      {drop, "from all iif eth0 prohibit"},
      {marked, "from 10.1.0.1 fwmark 0x1/0xff lookup 5"},
      {jump, "from all goto 9"},
      {last, "from all (and another condition) lookup default"},
      {full(),
       "not from fd00:1::/32 to fd00:2::1 tos 0x10 fwmark 0x100/0xff00 iif eth0 oif "
       "fifteen-letters uidrange 0-4294967294 ipproto tcp sport 1-1024 dport 443 lookup 1000 "
       "suppress_prefixlength 0 suppress_ifgroup 116"},
  };
  for (auto& row : rows) EXPECT_STREQ(describe(row.rule).cStr(), row.text.cStr());
}

kj::Array<kj::byte> edited(kj::Array<kj::byte> message, size_t at, kj::byte value) {
  message[at] = value;
  return message;
}

// Catches: other families' rules and bridges' tables taken for ours; a condition that is not known,
// or not readable, being dropped, so that a rule looks as if it held for everything.
TEST(NetlinkRule, WhatIsNotOursOrNotWholeIsNotTakenForIt) {
  constexpr size_t kFamily = 16, kDestinationLength = 17, kSourceLength = 18;
  Rule rule{.priority = 5, .from = prefix("10.0.0.0/8"), .table = 5};
  Neighbour neighbour{.link = 1, .address = ip("10.0.0.1"), .state = NUD_FAILED};
  auto first = [](kj::ArrayPtr<const kj::byte> bytes) {
    return kj::mv(decode(bytes).messages[0].body);
  };
  EXPECT_TRUE(first(edited(ruleMessage(RTM_NEWRULE, rule), kFamily, 128)).is<Other>());
  EXPECT_TRUE(
      first(edited(neighbourMessage(RTM_NEWNEIGH, neighbour), kFamily, AF_BRIDGE)).is<Other>());
  EXPECT_TRUE(
      first(edited(neighbourMessage(RTM_DELNEIGH, neighbour), kFamily, AF_BRIDGE)).is<Other>());
  EXPECT_TRUE(first(neighbourMessage(RTM_DELNEIGH, neighbour)).is<Removed>());
  EXPECT_TRUE(first(ruleMessage(RTM_DELRULE, rule)).is<Removed>());
  struct {
    kj::Array<kj::byte> said;
    bool rules, neighbours;
  } notices[] = {
      {ruleMessage(RTM_NEWRULE, rule), true, false},
      {ruleMessage(RTM_DELRULE, rule), true, false},
      {neighbourMessage(RTM_NEWNEIGH, neighbour), false, true},
      {neighbourMessage(RTM_DELNEIGH, neighbour), false, true},
      {edited(ruleMessage(RTM_NEWRULE, rule), kFamily, 128), false, false},
      {edited(neighbourMessage(RTM_NEWNEIGH, neighbour), kFamily, AF_BRIDGE), false, false},
      {edited(neighbourMessage(RTM_DELNEIGH, neighbour), kFamily, AF_BRIDGE), false, false},
  };
  for (auto& row : notices) {
    auto notice = noticeOf(row.said);
    EXPECT_EQ(notice.rules, row.rules);
    EXPECT_EQ(notice.neighbours, row.neighbours);
    EXPECT_FALSE(notice.links || notice.addresses || notice.routes || notice.overrun);
  }
  // An IPv6 entry with an IPv4 address.
  EXPECT_TRUE(
      first(edited(neighbourMessage(RTM_NEWNEIGH, neighbour), kFamily, AF_INET6)).is<Other>());

  EXPECT_FALSE(first(ruleMessage(RTM_NEWRULE, rule)).get<Rule>().more);
  EXPECT_TRUE(first(edited(ruleMessage(RTM_NEWRULE, rule), kSourceLength, 33))
                  .get<Rule>()
                  .more);  // of 32 bits
  // Its address is missing.
  EXPECT_TRUE(
      first(edited(ruleMessage(RTM_NEWRULE, rule), kDestinationLength, 8)).get<Rule>().more);
  MessageBuilder flow(RTM_NEWRULE, 0);
  flow.header<fib_rule_hdr>().family = AF_INET;
  flow.putU32(FRA_FLOW, 1);
  EXPECT_TRUE(first(flow.finish()).get<Rule>().more);
  MessageBuilder name(RTM_NEWRULE, 0);
  name.header<fib_rule_hdr>().family = AF_INET;
  name.putText(FRA_IIFNAME, "sixteencharacter");
  EXPECT_TRUE(first(name.finish()).get<Rule>().more);
  // A truncated header is not a message.
  for (auto type : {RTM_NEWRULE, RTM_NEWNEIGH}) {
    auto decoded = decode(MessageBuilder(type, 0).finish());
    EXPECT_TRUE(decoded.messages[0].body.is<Other>());
  }
}

}  // namespace
}  // namespace talos::netlink
