// Routing rules and neighbours: their messages and what the model kernel makes of them. The same
// against Linux: netlink-rule-kernel-test.cc.
#include "common/netlink/netlink-rule.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <string.h>

#include "common/base/error.h"
#include "common/netlink/netlink-codec.h"
#include "common/netlink/netlink-model.h"
#include "common/testing/test-ip.h"

namespace talos::netlink {
namespace {

const std::vector<kj::byte> kMac = {0x52, 0x54, 0, 0, 0, 1}, kOther = {0x52, 0x54, 0, 0, 0, 2};

// One with everything that can be said.
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

// Catches: a wrong attribute number, order, padding or byte order in the commonest request.
TEST(NetlinkRule, RequestByteForByte) {
  Rule rule{.priority = 100, .from = prefix("10.1.0.0/16"), .mark = 1, .table = 5, .protocol = 116};
  EXPECT_STREQ(kj::encodeHex(encode(AddRule{rule})).cStr(),
               // length 68, RTM_NEWRULE 32, REQUEST|ACK|EXCL|CREATE, sequence, port
               "44000000"
               "2000"
               "0506"
               "00000000"
               "00000000"
               // AF_INET, source /16, table 5, FR_ACT_TO_TBL
               "02001000"
               "05000001"
               "00000000"
               "08000600"
               "64000000"  // FRA_PRIORITY
               "08000200"
               "0a010000"  // FRA_SRC
               "08000a00"
               "01000000"  // FRA_FWMARK
               "08001000"
               "ffffffff"  // FRA_FWMASK
               "05001500"
               "74000000");  // FRA_PROTOCOL
}

TEST(NetlinkNeighbour, RequestByteForByte) {
  Neighbour neighbour{
      .link = 3, .address = ip("10.5.0.1"), .hardwareAddress = kMac, .state = NUD_PERMANENT};
  EXPECT_STREQ(kj::encodeHex(encode(AddNeighbour{neighbour, true})).cStr(),
               // length 48, RTM_NEWNEIGH 28, REQUEST|ACK|REPLACE|CREATE
               "30000000"
               "1c00"
               "0505"
               "00000000"
               "00000000"
               "02000000"
               "03000000"
               "80000000"  // NUD_PERMANENT, no flags
               "08000100"
               "0a050001"  // NDA_DST
               "0a000200"
               "525400000001"
               "0000");  // NDA_LLADDR
}

// Catches: fields lost or swapped between encoding and decoding.
TEST(NetlinkRule, SurvivesTheRoundTrip) {
  Rule gone{.family = AF_INET, .priority = 1, .action = FR_ACT_GOTO, .target = 7};
  Rule drop{.priority = 0xffffffff, .iif = "lo", .action = FR_ACT_BLACKHOLE};
  Rule vrf{.priority = 1000, .table = 0};
  vrf.l3mdev = true;
  for (auto& rule : {full(), gone, drop, vrf}) {
    auto decoded = decode(encode(AddRule{rule}));
    ASSERT_EQ(decoded.messages.size(), 1u);
    EXPECT_TRUE(decoded.messages[0].body.get<Rule>() == rule) << describe(rule).cStr();
  }
}

TEST(NetlinkNeighbour, SurvivesTheRoundTrip) {
  Neighbour six{.link = 7,
                .address = ip("fe80::1"),
                .hardwareAddress = kMac,
                .state = NUD_STALE,
                .flags = NTF_ROUTER | NTF_EXT_LEARNED,
                .moreFlags = NTF_EXT_MANAGED,
                .protocol = 116};
  Neighbour bare{.link = 1, .address = ip("10.0.0.1"), .state = NUD_FAILED};
  for (auto& neighbour : {six, bare}) {
    auto decoded = decode(encode(AddNeighbour{neighbour}));
    ASSERT_EQ(decoded.messages.size(), 1u);
    EXPECT_TRUE(decoded.messages[0].body.get<Neighbour>() == neighbour);
  }
}

// Catches: a rule or neighbour that is told in other words than those of ip.
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
  EXPECT_STREQ(
      describe(Change(AddRule{Rule{.family = AF_INET6, .priority = 9, .table = 254}})).cStr(),
      "add IPv6 rule 9: from all lookup main");
  Neighbour neighbour{
      .link = 3, .address = ip("10.5.0.1"), .hardwareAddress = kMac, .state = NUD_STALE};
  EXPECT_STREQ(describe(Change(AddNeighbour{neighbour})).cStr(),
               "add neighbour 10.5.0.1 (52:54:00:00:00:01, stale) of link 3");
}

// Catches: rules that the kernel would understand as something else than what was asked for.
TEST(NetlinkRule, WhatCannotBeSaidIsRefused) {
  Rule good{.priority = 5, .table = 5};
  auto with = [&](auto&& change) {
    auto rule = good;
    change(rule);
    return rule;
  };
  struct {
    Rule rule;
    kj::StringPtr mistake;
  } rows[] = {
      {with([](Rule& r) { r.table = 0; }), "must name a table: the kernel would choose one"},
      {with([](Rule& r) { r.action = 0; }), "must have an action"},
      {with([](Rule& r) { r.family = AF_BRIDGE; }), "must be IPv4 or IPv6"},
      {with([](Rule& r) { r.from = prefix("fd00::/8"); }),
       "its prefixes must be of its own family"},
      {with([](Rule& r) { r.to = prefix("fd00::/8"); }), "its prefixes must be of its own family"},
      {with([](Rule& r) { r.iif = "sixteencharacter"; }),
       "names of links have at most 15 characters"},
      {with([](Rule& r) { r.oif = "sixteencharacter"; }),
       "names of links have at most 15 characters"},
      {with([](Rule& r) { r.tos = 1; }), "the TOS must be a multiple of 4"},
      {with([](Rule& r) { r.sourcePorts = Span<uint16_t>{0, 5}; }),
       "ports must be from 1 to 65534, the first not above the last"},
      {with([](Rule& r) { r.sourcePorts = Span<uint16_t>{1, 65535}; }),
       "ports must be from 1 to 65534, the first not above the last"},
      {with([](Rule& r) { r.destinationPorts = Span<uint16_t>{6, 5}; }),
       "ports must be from 1 to 65534, the first not above the last"},
      {with([](Rule& r) { r.users = Span<uint32_t>{6, 5}; }),
       "the first user must not be above the last"},
      {with([](Rule& r) { r.l3mdev = true; }), "the table of a VRF's rule is that of the VRF"},
      {with([](Rule& r) { r.more = true; }), "it has a condition that is not known here"},
  };
  EXPECT_TRUE(mistakeOf(good, false) == nullptr);
  for (auto& row : rows) {
    EXPECT_EQ(KJ_ASSERT_NONNULL(mistakeOf(row.rule, false), row.mistake), row.mistake);
    auto e = kj::runCatchingExceptions([&] { encode(AddRule{row.rule}); });
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kInvalidArgument);
  }
  EXPECT_TRUE(mistakeOf(rows[0].rule, true) == nullptr);  // a deletion need not name it
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
  EXPECT_TRUE(first(edited(encode(AddRule{rule}), kFamily, 128)).is<Other>());
  EXPECT_TRUE(first(edited(encode(AddNeighbour{neighbour}), kFamily, AF_BRIDGE)).is<Other>());
  EXPECT_TRUE(first(edited(encode(DeleteNeighbour{neighbour}), kFamily, AF_BRIDGE)).is<Other>());
  EXPECT_TRUE(first(encode(DeleteNeighbour{neighbour})).is<Removed>());
  EXPECT_TRUE(first(encode(DeleteRule{rule})).is<Removed>());
  struct {
    kj::Array<kj::byte> said;
    bool rules, neighbours;
  } notices[] = {
      {encode(AddRule{rule}), true, false},
      {encode(DeleteRule{rule}), true, false},
      {encode(AddNeighbour{neighbour}), false, true},
      {encode(DeleteNeighbour{neighbour}), false, true},
      {edited(encode(AddRule{rule}), kFamily, 128), false, false},
      {edited(encode(AddNeighbour{neighbour}), kFamily, AF_BRIDGE), false, false},
      {edited(encode(DeleteNeighbour{neighbour}), kFamily, AF_BRIDGE), false, false},
  };
  for (auto& row : notices) {
    auto notice = noticeOf(row.said);
    EXPECT_EQ(notice.rules, row.rules);
    EXPECT_EQ(notice.neighbours, row.neighbours);
    EXPECT_FALSE(notice.links || notice.addresses || notice.routes || notice.overrun);
  }
  // An IPv6 entry with an IPv4 address.
  EXPECT_TRUE(first(edited(encode(AddNeighbour{neighbour}), kFamily, AF_INET6)).is<Other>());

  EXPECT_FALSE(first(encode(AddRule{rule})).get<Rule>().more);
  EXPECT_TRUE(
      first(edited(encode(AddRule{rule}), kSourceLength, 33)).get<Rule>().more);  // of 32 bits
  // Its address is missing.
  EXPECT_TRUE(first(edited(encode(AddRule{rule}), kDestinationLength, 8)).get<Rule>().more);
  MessageBuilder flow(RTM_NEWRULE, 0);
  flow.header<fib_rule_hdr>().family = AF_INET;
  flow.putU32(FRA_FLOW, 1);
  EXPECT_TRUE(first(flow.finish()).get<Rule>().more);
  MessageBuilder name(RTM_NEWRULE, 0);
  name.header<fib_rule_hdr>().family = AF_INET;
  name.putText(FRA_IIFNAME, "sixteencharacter");
  EXPECT_TRUE(first(name.finish()).get<Rule>().more);
  // A header that is cut is no message at all.
  for (auto type : {RTM_NEWRULE, RTM_NEWNEIGH}) {
    auto decoded = decode(MessageBuilder(type, 0).finish());
    EXPECT_TRUE(decoded.messages[0].body.is<Other>());
  }
}

// --- the model
// --------------------------------------------------------------------------------------
int codeOf(Kernel& kernel, Change change) {
  auto answers = kernel.apply(kj::arrayPtr(&change, 1));
  KJ_IF_MAYBE (failure, answers[0]) return failure->code;
  return 0;
}

// Catches: a kernel without IPv6 that lists rules of it, or takes them.
TEST(NetlinkRule, TheModelWithoutIpv6) {
  ModelKernel with, without(false);
  EXPECT_EQ(with.rules().size(), 5u);
  EXPECT_EQ(without.rules().size(), 3u);
  Rule six{.family = AF_INET6, .priority = 5, .table = 5};
  EXPECT_EQ(codeOf(with, AddRule{six}), 0);
  EXPECT_EQ(codeOf(without, AddRule{six}), EAFNOSUPPORT);
  EXPECT_EQ(codeOf(without, DeleteRule{six}), EAFNOSUPPORT);
  unsigned eth0 = without.plug("eth0");
  Neighbour neighbour{
      .link = eth0, .address = ip("fe80::1"), .hardwareAddress = kMac, .state = NUD_STALE};
  EXPECT_EQ(codeOf(without, AddNeighbour{neighbour}), EAFNOSUPPORT);
  EXPECT_EQ(codeOf(without, DeleteNeighbour{neighbour}), EAFNOSUPPORT);
}

// Catches: entries of a link that is gone, or that survive a pulled cable though they may be wrong.
TEST(NetlinkNeighbour, TheModelForgetsThemWithTheirLink) {
  ModelKernel kernel;
  unsigned eth0 = kernel.plug("eth0"), eth1 = kernel.plug("eth1");
  for (unsigned link : {eth0, eth1}) {
    setUp(kernel, link);
    change(kernel, AddNeighbour{{.link = link,
                                 .address = ip("10.0.0.1"),
                                 .hardwareAddress = kMac,
                                 .state = NUD_PERMANENT}});
    change(kernel, AddNeighbour{{.link = link,
                                 .address = ip("10.0.0.2"),
                                 .hardwareAddress = kOther,
                                 .state = NUD_STALE}});
  }
  kernel.setCarrier(eth0, false);
  EXPECT_EQ(kernel.neighbours().size(), 3u);
  for (auto& left : kernel.neighbours()) {
    if (left.link == eth0) EXPECT_EQ(left.state, NUD_PERMANENT);
  }
  setUp(kernel, eth0, false);
  EXPECT_EQ(kernel.neighbours().size(), 2u);
  kernel.unplug(eth1);
  EXPECT_EQ(kernel.neighbours().size(), 0u);
}

// Catches: a monitor that wakes for what it was not asked to hear, or sleeps over what it was.
TEST(NetlinkNeighbour, MonitorsHearWhatTheyAskedFor) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  ModelKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  auto usual = kernel.monitor();
  auto curious = kernel.monitor(
      {.links = false, .addresses = false, .routes = false, .rules = true, .neighbours = true});
  auto usualNext = usual->next(), curiousNext = curious->next();
  change(kernel, AddRule{{.priority = 5, .table = 5}});
  change(kernel, AddNeighbour{{.link = eth0, .address = ip("10.0.0.1"), .state = NUD_FAILED}});
  EXPECT_FALSE(usualNext.poll(scope));
  auto notice = curiousNext.wait(scope);
  EXPECT_TRUE(notice.rules && notice.neighbours && !notice.links);
  curiousNext = curious->next();
  setUp(kernel, eth0);
  EXPECT_FALSE(curiousNext.poll(scope));
  EXPECT_TRUE(usualNext.wait(scope).links);

  change(kernel, DeleteRule{{.priority = 5, .table = 5}});
  EXPECT_TRUE(curious->take().rules);
  setUp(kernel, eth0, false);  // forgets what it knew
  EXPECT_TRUE(curious->take().neighbours);
  change(kernel, AddNeighbour{{.link = eth0, .address = ip("10.0.0.1"), .state = NUD_FAILED}});
  curious->take();
  change(kernel, DeleteNeighbour{{.link = eth0, .address = ip("10.0.0.1")}});
  EXPECT_TRUE(curious->take().neighbours);
  // What was taken meanwhile wakes nobody any more.
  usual->take();
  usualNext = usual->next();
  setUp(kernel, eth0);
  EXPECT_TRUE(usual->take().links);
  EXPECT_FALSE(usualNext.poll(scope));
}

}  // namespace
}  // namespace talos::netlink
