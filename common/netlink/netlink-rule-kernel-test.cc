// Routing rules and neighbours: values read from the real kernel, compared with the output of ip.
// In a network namespace that each test makes for itself; needs root.
#include <capnp/compat/json.h>
#include <capnp/message.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"
#include "common/testing/test-namespace.h"

namespace talos::netlink {
namespace {

// --- output of ip

using Json = capnp::JsonValue::Reader;

// Returns the output of a command, in the namespace of this thread.
kj::String output(kj::StringPtr command) {
  FILE* pipe = popen(command.cStr(), "r");
  KJ_REQUIRE(pipe != nullptr, command);
  kj::Vector<char> text;
  char part[4096];
  while (size_t size = fread(part, 1, sizeof(part), pipe)) text.addAll(part, part + size);
  KJ_REQUIRE(pclose(pipe) == 0, command, "these tests need iproute2");
  text.add('\0');
  return kj::String(text.releaseAsArray());
}

kj::String textOf(Json value) {
  switch (value.which()) {
    case capnp::JsonValue::STRING:
      return kj::str(value.getString());
    case capnp::JsonValue::NUMBER:
      return kj::str(static_cast<int64_t>(value.getNumber()));
    case capnp::JsonValue::NULL_:
      return kj::str("yes");  // a flag
    case capnp::JsonValue::ARRAY:
      return kj::strArray(KJ_MAP(each, value.getArray()) { return textOf(each); }, ",");
    default:
      return kj::str("?");
  }
}

kj::String fieldOf(Json object, kj::StringPtr name) {
  for (auto field : object.getObject()) {
    if (field.getName() == name) return textOf(field.getValue());
  }
  return kj::str("-");
}

// Returns the fields of each object, by name, one line each.
kj::Vector<kj::String> table(kj::StringPtr command, std::initializer_list<kj::StringPtr> fields) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<capnp::JsonValue>();
  capnp::JsonCodec().decodeRaw(output(command).asArray(), root);
  kj::Vector<kj::String> lines;
  for (auto object : root.asReader().getArray()) {
    kj::Vector<kj::String> line;
    for (auto field : fields) line.add(fieldOf(object, field));
    lines.add(kj::strArray(line, " "));
  }
  return lines;
}

kj::String ipRules() {
  auto fields = {"priority"_kj, "not"_kj,    "src"_kj,    "srclen"_kj,  "dst"_kj,
                 "dstlen"_kj,   "fwmark"_kj, "fwmask"_kj, "iif"_kj,     "oif"_kj,
                 "table"_kj,    "goto"_kj,   "action"_kj, "protocol"_kj};
  auto four = table("ip -j -4 rule", fields), six = table("ip -j -6 rule", fields);
  for (auto& line : six) four.add(kj::mv(line));
  return kj::strArray(four, "\n");
}

// Returns the same for a rule that was read.
kj::String asIp(const Rule& rule) {
  kj::Vector<kj::String> line;
  auto add = [&](bool given, auto&& value) { line.add(given ? kj::str(value) : kj::str("-")); };
  auto addPrefix = [&](const std::optional<Prefix>& prefix) {
    add(prefix.has_value(), prefix ? prefix->address.toString() : kj::String());
    add(prefix && prefix->length < prefix->address.bits(), prefix ? prefix->length : 0);
  };
  line.add(kj::str(rule.priority));
  add(rule.inverted, "yes");
  if (rule.from) {
    addPrefix(rule.from);
  } else {
    line.add(kj::str("all -"));
  }
  addPrefix(rule.to);
  add(rule.mark != 0, kj::str("0x", kj::hex(rule.mark)));
  add(rule.mask != 0 && rule.mask != 0xffffffff, kj::str("0x", kj::hex(rule.mask)));
  add(!rule.iif.empty(), rule.iif.c_str());
  add(!rule.oif.empty(), rule.oif.c_str());
  bool lookup = rule.action == FR_ACT_TO_TBL, jump = rule.action == FR_ACT_GOTO;
  add(lookup, tableName(rule.table));
  add(jump, rule.target);
  add(!lookup && !jump, ruleActionName(rule.action));
  add(rule.protocol == RTPROT_STATIC, "static");  // ip omits the kernel's
  return kj::strArray(line, " ");
}

kj::String asIp(const kj::Vector<Rule>& rules) {
  return kj::strArray(KJ_MAP(rule, rules) { return asIp(rule); }, "\n");
}

// --- the same of both

Rule inverted(Rule rule) {
  rule.inverted = true;
  return rule;
}

// Catches: a rule that is read differently from ip; a rule that is not read at all.
TEST(NetlinkKernelRules, AreReadAsIpReadsThem) {
  inNamespace([] {
    auto kernel = openKernel();
    EXPECT_STREQ(asIp(kernel->rules()).cStr(), ipRules().cStr());
    const Rule rules[] = {
        {.priority = 100, .from = prefix("10.1.0.0/16"), .table = 5},
        {.priority = 100, .from = prefix("10.2.0.0/16"), .table = 5},
        {.priority = 100, .from = prefix("10.1.0.0/16"), .table = 5, .protocol = RTPROT_STATIC},
        {.priority = 100, .mark = 1, .table = 5},
        {.priority = 100, .mark = 1, .mask = 0xff, .table = 5},
        {.priority = 90, .to = prefix("10.3.0.1/32"), .iif = "nowhere", .table = 1000},
        {.priority = 90, .oif = "left", .action = FR_ACT_BLACKHOLE},
        {.priority = 200, .action = FR_ACT_GOTO, .target = 300},
        {.priority = 300, .action = FR_ACT_UNREACHABLE},
        inverted({.priority = 310, .from = prefix("10.9.0.0/16"), .table = 6}),
        {.family = AF_INET6, .priority = 100, .from = prefix("fd00::/8"), .table = 5},
        {.family = AF_INET6, .priority = 100, .to = prefix("fd00:1::/32"), .table = 5},
    };
    for (auto& rule : rules) {
      demand(ruleMessage(RTM_NEWRULE, rule));
      EXPECT_STREQ(asIp(kernel->rules()).cStr(), ipRules().cStr()) << describe(rule).cStr();
    }
    EXPECT_EQ(kernel->rules().size(), 5 + kj::size(rules));
  });
}

// Catches: a rule that the kernel takes for another one; a second rule beside an equal one; a
// removal that takes the rule of another program.
TEST(NetlinkKernelRules, AreMadeAndRemovedOneByOne) {
  inNamespace([] {
    auto kernel = openKernel();
    auto usual = ipRules();
    const Rule rules[] = {
        {.priority = 100, .from = prefix("10.1.0.0/16"), .table = 5, .protocol = RTPROT_STATIC},
        {.priority = 100, .table = 5, .protocol = 116},
        {.priority = 110, .mark = 1, .mask = 0xff, .table = 1000, .protocol = 116},
        {.priority = 120, .to = prefix("10.3.0.1/32"), .iif = "left", .action = FR_ACT_BLACKHOLE},
        {.family = AF_INET6, .priority = 100, .from = prefix("fd00::/8"), .oif = "a", .table = 5},
        {.family = AF_INET6, .priority = 0xfffffffe, .action = FR_ACT_PROHIBIT, .protocol = 116},
    };
    auto has = [&](const Rule& rule) {
      auto there = kernel->rules();
      return std::find(there.begin(), there.end(), rule) != there.end();
    };
    for (auto& rule : rules) {
      EXPECT_FALSE(has(rule));
      change(*kernel, AddRule{rule});
      EXPECT_TRUE(has(rule)) << describe(rule).cStr();
      Change second = AddRule{rule};
      auto failure = kj::mv(kernel->apply(kj::arrayPtr(&second, 1))[0]);
      EXPECT_EQ(KJ_ASSERT_NONNULL(failure).code, EEXIST);
    }
    for (auto& rule : rules) {
      if (rule.protocol != 116) continue;
      change(*kernel, DeleteRule{rule});
      EXPECT_FALSE(has(rule));
      Change second = DeleteRule{rule};
      auto failure = kj::mv(kernel->apply(kj::arrayPtr(&second, 1))[0]);
      EXPECT_EQ(KJ_ASSERT_NONNULL(failure).code, ENOENT);
    }
    for (auto& rule : rules) EXPECT_EQ(has(rule), rule.protocol != 116);
    for (auto& rule : rules) {
      if (rule.protocol != 116) change(*kernel, DeleteRule{rule});
    }
    EXPECT_STREQ(ipRules().cStr(), usual.cStr());
  });
}

const std::vector<kj::byte> kMac = {2, 0, 0, 0, 0, 1};

kj::String upper(kj::StringPtr text) {
  return kj::str(KJ_MAP(c, text) { return char(toupper(c)); });
}

// Returns "10.0.0.1 left 02:00:00:00:00:01 PERMANENT", sorted; without multicast, which the kernel
// creates.
kj::String ipNeighbours() {
  kj::Vector<kj::String> lines;
  for (auto& line : table("ip -j neigh show nud all",
                          {"dst"_kj, "dev"_kj, "lladdr"_kj, "state"_kj, "router"_kj})) {
    bool multicast = line.startsWith("ff");
    if (!multicast) lines.add(kj::mv(line));
  }
  std::sort(lines.begin(), lines.end());
  return kj::strArray(lines, "\n");
}

kj::String asIp(const kj::Vector<Neighbour>& neighbours, Kernel& kernel) {
  kj::Vector<kj::String> lines;
  for (auto& n : neighbours) {
    if (n.address.isMulticast()) continue;
    kj::String name;
    for (auto& link : kernel.links()) {
      if (link.index == n.link) name = kj::str(link.name);
    }
    auto hardware = hardwareText(n.hardware());
    lines.add(kj::str(n.address, ' ', name, ' ',
                      hardware.size() > 0 ? kj::mv(hardware) : kj::str("-"), ' ',
                      n.state == NUD_NONE ? kj::str("-") : upper(neighbourStateName(n.state)), ' ',
                      (n.flags & NTF_ROUTER) != 0 ? "yes" : "-"));
  }
  std::sort(lines.begin(), lines.end());
  return kj::strArray(lines, "\n");
}

// Catches: the same of neighbours.
TEST(NetlinkKernelNeighbours, AreReadAsIpReadsThem) {
  inNamespace([] {
    auto kernel = openKernel();
    setUp(*kernel, 1);  // without its own address, Linux takes every other address for a broadcast
    unsigned link = addVeth(*kernel, "left", "right");
    setUp(*kernel, indexOf(*kernel, "right"));
    setUp(*kernel, link);
    const Neighbour neighbours[] = {
        {.link = link, .address = ip("10.0.0.1"), .hardwareAddress = kMac, .state = NUD_PERMANENT},
        {.link = link, .address = ip("10.0.0.2"), .hardwareAddress = kMac, .state = NUD_STALE},
        {.link = link, .address = ip("10.0.0.3"), .state = NUD_FAILED},
        {.link = link,
         .address = ip("fd00::1"),
         .hardwareAddress = kMac,
         .state = NUD_STALE,
         .flags = NTF_ROUTER},
    };
    for (auto& neighbour : neighbours) {
      demand(neighbourMessage(RTM_NEWNEIGH, neighbour));
      auto text = asIp(kernel->neighbours(), *kernel);
      EXPECT_STREQ(text.cStr(), ipNeighbours().cStr());
      EXPECT_TRUE(text.asArray().size() > 0);
    }
    Neighbour marked{.link = link,
                     .address = ip("10.0.0.6"),
                     .hardwareAddress = kMac,
                     .state = NUD_PERMANENT,
                     .flags = NTF_EXT_LEARNED | NTF_ROUTER,
                     .protocol = RTPROT_STATIC};
    demand(neighbourMessage(RTM_NEWNEIGH, marked));
    auto there = kernel->neighbours();
    EXPECT_TRUE(std::find(there.begin(), there.end(), marked) != there.end());
    setUp(*kernel, link, false);  // forgets them all
    EXPECT_STREQ(asIp(kernel->neighbours(), *kernel).cStr(), ipNeighbours().cStr());
  });
}

// Catches: a change of rules or neighbours that is not reported.
TEST(NetlinkKernelNeighbours, TheMonitorTellsWhatItWasAskedFor) {
  inNamespace([] {
    auto io = kj::setupAsyncIo();
    auto kernel = openKernel();
    unsigned link = addVeth(*kernel, "left", "right");
    auto usual = openMonitor(io.unixEventPort);
    auto rules = openMonitor(
        io.unixEventPort, 1 << 16,
        {.links = false, .addresses = false, .routes = false, .rules = true, .neighbours = false});
    auto neighbours = openMonitor(
        io.unixEventPort, 1 << 16,
        {.links = false, .addresses = false, .routes = false, .rules = false, .neighbours = true});
    // The kernel notifies before it answers the change.
    auto heard = [&](Monitor& monitor) {
      auto next = monitor.next();
      return next.poll(io.waitScope) ? next.wait(io.waitScope) : Notice();
    };
    for (int family : {AF_INET, AF_INET6}) {
      Rule rule{.family = family, .priority = 7, .table = 7};
      demand(ruleMessage(RTM_NEWRULE, rule));
      EXPECT_TRUE(heard(*rules).rules);
      demand(ruleMessage(RTM_DELRULE, rule));
      EXPECT_TRUE(heard(*rules).rules);
      Neighbour neighbour{.link = link,
                          .address = ip(family == AF_INET ? "10.0.0.1" : "fd00::1"),
                          .hardwareAddress = kMac,
                          .state = NUD_PERMANENT};
      demand(neighbourMessage(RTM_NEWNEIGH, neighbour));
      EXPECT_TRUE(heard(*neighbours).neighbours);
      demand(neighbourMessage(RTM_DELNEIGH, neighbour));
      EXPECT_TRUE(heard(*neighbours).neighbours);
    }
    auto other = heard(*usual);
    EXPECT_FALSE(other.rules || other.neighbours);
  });
}

}  // namespace
}  // namespace talos::netlink
