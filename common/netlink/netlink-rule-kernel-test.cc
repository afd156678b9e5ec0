// Routing rules and neighbours: the model kernel and the real one through the same changes, and
// what is read of the real one beside what ip says of it. In a network namespace that each test
// makes for itself; needs root.
#include <capnp/compat/json.h>
#include <capnp/message.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "common/netlink/netlink-model.h"
#include "common/testing/test-ip.h"
#include "common/testing/test-namespace.h"

namespace talos::netlink {
namespace {

// --- what ip says
// ---------------------------------------------------------------------------------
using Json = capnp::JsonValue::Reader;

// What it prints, in the namespace of this thread.
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

// The fields of each object, by name, one line each.
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

// The same of what was read.
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
  add(rule.protocol == RTPROT_STATIC, "static");  // of the kernel's it says nothing
  return kj::strArray(line, " ");
}

kj::String asIp(const kj::Vector<Rule>& rules) {
  return kj::strArray(KJ_MAP(rule, rules) { return asIp(rule); }, "\n");
}

// --- the same changes
// -----------------------------------------------------------------------------
kj::String answerOf(Kernel& kernel, const Change& change) {
  auto answers = kernel.apply(kj::arrayPtr(&change, 1));
  KJ_IF_MAYBE (failure, answers[0]) return kj::str(failure->message);
  return kj::str(describe(change), ": done");
}

kj::Vector<Change> ruleChanges() {
  kj::Vector<Change> all;
  auto add = [&](Rule rule) { all.add(AddRule{kj::mv(rule)}); };
  auto drop = [&](Rule rule) { all.add(DeleteRule{kj::mv(rule)}); };
  add({.priority = 100, .from = prefix("10.1.0.0/16"), .table = 5});
  add({.priority = 100, .from = prefix("10.1.0.0/16"), .table = 5});  // is there
  add({.priority = 100, .table = 5});  // wider, and yet taken for the same
  add({.priority = 100, .from = prefix("10.2.0.0/16"), .table = 5});
  add({.priority = 100, .from = prefix("10.1.0.0/16"), .table = 5, .protocol = RTPROT_STATIC});
  add({.priority = 100, .mark = 1, .table = 5});
  add({.priority = 100, .mark = 1, .mask = 0xffffffff, .table = 5});  // is there
  add({.priority = 100, .mark = 1, .mask = 0xff, .table = 5});
  add({.priority = 90, .to = prefix("10.3.0.1/32"), .iif = "nowhere", .table = 1000});
  add({.priority = 90, .oif = "left", .action = FR_ACT_BLACKHOLE});
  add({.priority = 200, .action = FR_ACT_GOTO, .target = 100});
  add({.priority = 200, .action = FR_ACT_GOTO, .target = 200});
  add({.priority = 200, .action = FR_ACT_GOTO, .target = 300});
  add({.priority = 200, .action = FR_ACT_GOTO, .target = 400});  // the target is no difference
  add({.priority = 300, .action = FR_ACT_UNREACHABLE});
  Rule inverted{.priority = 310, .from = prefix("10.9.0.0/16"), .table = 6};
  inverted.inverted = true;
  add(inverted);
  inverted.inverted = false;
  add(inverted);  // nor is that
  add({.family = AF_INET6, .priority = 100, .from = prefix("fd00::/8"), .table = 5});
  add({.family = AF_INET6, .priority = 100, .to = prefix("fd00:1::/32"), .table = 5});
  drop({.priority = 100, .from = prefix("10.8.0.0/16")});
  drop({.priority = 100, .table = 5});  // the first, though it has more
  drop({.priority = 100, .mark = 1, .mask = 0xff, .table = 5});
  drop({.priority = 90, .action = 0});
  drop({.priority = 200, .action = FR_ACT_GOTO, .target = 100});
  drop({.priority = 200, .action = FR_ACT_GOTO, .target = 999});
  drop({.priority = 12345, .action = 0});
  drop({.family = AF_INET6, .priority = 100, .to = prefix("fd00:1::/32"), .action = 0});
  drop({.priority = 32767, .action = 0});
  return all;
}

// Catches: a model that is kinder than Linux, or a rule that is read as another than ip sees.
TEST(NetlinkKernelRules, TheModelBehavesAsLinuxDoes) {
  inNamespace([] {
    auto kernel = openKernel();
    addLink(*kernel, "left", Veth{kj::str("right")});
    ModelKernel model;
    EXPECT_STREQ(asIp(kernel->rules()).cStr(), ipRules().cStr());
    for (auto& change : ruleChanges()) {
      auto said = answerOf(*kernel, change);
      EXPECT_STREQ(answerOf(model, change).cStr(), said.cStr());
      auto there = kernel->rules(), modelled = model.rules();
      EXPECT_STREQ(asIp(modelled).cStr(), asIp(there).cStr()) << said.cStr();
      EXPECT_TRUE(std::equal(there.begin(), there.end(), modelled.begin(), modelled.end()))
          << said.cStr();
      EXPECT_STREQ(asIp(there).cStr(), ipRules().cStr()) << said.cStr();
    }
  });
}

const std::vector<kj::byte> kMac = {2, 0, 0, 0, 0, 1}, kOther = {2, 0, 0, 0, 0, 2};

kj::Vector<Change> neighbourChanges(unsigned link, unsigned peer) {
  kj::Vector<Change> all;
  auto one = [&](kj::StringPtr address, uint16_t state,
                 std::vector<kj::byte> hardware = {}) -> Neighbour {
    return {.link = link, .address = ip(address), .hardwareAddress = hardware, .state = state};
  };
  auto add = [&](Neighbour neighbour, bool replace = false) {
    all.add(AddNeighbour{kj::mv(neighbour), replace});
  };
  auto drop = [&](Neighbour neighbour) { all.add(DeleteNeighbour{kj::mv(neighbour)}); };
  auto state = [&](unsigned which, bool up) { all.add(SetLink{.index = which, .up = up}); };
  add(one("10.0.0.1", NUD_PERMANENT, kMac));  // also while the link is down
  state(peer, true);
  state(link, true);
  add(one("10.0.0.1", NUD_PERMANENT, kOther));  // is there
  add(one("10.0.0.1", NUD_STALE, kOther), true);
  add(one("10.0.0.1", NUD_PERMANENT), true);  // keeps its hardware address
  add(one("10.0.0.2", NUD_PERMANENT));        // has none: refused, and an entry without state stays
  add(one("10.0.0.2", NUD_STALE, kMac));      // so this one is there
  add(one("10.0.0.2", NUD_STALE, kMac), true);
  add(one("10.0.0.3", NUD_FAILED));
  add(one("10.0.0.3", NUD_PERMANENT), true);
  add(one("10.0.0.1", NUD_FAILED), true);  // forgets its hardware address
  add(one("10.0.0.1", NUD_PERMANENT), true);
  add(one("10.0.0.4", NUD_PERMANENT, {2, 0}));                    // too short for the link
  add(one("10.0.0.5", NUD_PERMANENT, {2, 0, 0, 0, 0, 3, 4, 5}));  // the rest is not looked at
  auto marked = one("10.0.0.6", NUD_PERMANENT, kMac);
  marked.flags = NTF_EXT_LEARNED | NTF_ROUTER;
  marked.protocol = RTPROT_STATIC;
  add(marked);
  marked.protocol = 0;
  add(marked, true);  // keeps who made it
  auto router = one("fd00::1", NUD_STALE, kMac);
  router.flags = NTF_ROUTER;
  add(router);
  router.flags = 0;
  add(router, true);
  add({.link = 9999, .address = ip("10.0.0.1"), .hardwareAddress = kMac, .state = NUD_STALE});
  add({.address = ip("10.0.0.1"), .hardwareAddress = kMac, .state = NUD_STALE});
  drop(one("10.0.0.99", 0));
  drop(one("fd00::1", 0));
  drop(one("fd00::1", 0));
  drop({.link = 9999, .address = ip("10.0.0.1")});
  drop({.address = ip("10.0.0.1")});
  drop(one("10.0.0.1", 0));
  state(link, false);  // forgets them all
  return all;
}

// Without what the kernel makes by itself, which is multicast only here.
kj::Vector<Neighbour> made(kj::Vector<Neighbour> neighbours) {
  kj::Vector<Neighbour> result;
  for (auto& each : neighbours) {
    if (!each.address.isMulticast()) result.add(kj::mv(each));
  }
  std::sort(result.begin(), result.end());
  return result;
}

kj::String asText(const kj::Vector<Neighbour>& neighbours) {
  return kj::strArray(
      KJ_MAP(n, neighbours) {
        auto flags = neighbourFlagNames(n);
        return kj::str(n.link, ' ', describe(n), ' ', kj::strArray(flags, ","), ' ', n.protocol);
      },
      "\n");
}

kj::String upper(kj::StringPtr text) {
  return kj::str(KJ_MAP(c, text) { return char(toupper(c)); });
}

// "10.0.0.1 left 02:00:00:00:00:01 PERMANENT", sorted.
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
TEST(NetlinkKernelNeighbours, TheModelBehavesAsLinuxDoes) {
  inNamespace([] {
    auto kernel = openKernel();
    setUp(*kernel, 1);  // without any address of its own Linux takes every other for a broadcast
    unsigned link = addLink(*kernel, "left", Veth{kj::str("right")});
    unsigned peer = indexOf(*kernel, "right");
    ModelKernel model;
    for (unsigned i = 0, last = kj::max(link, peer), index = 0; index < last; ++i) {
      index = model.plug(kj::str("eth", i));
    }
    for (auto& change : neighbourChanges(link, peer)) {
      auto said = answerOf(*kernel, change);
      EXPECT_STREQ(answerOf(model, change).cStr(), said.cStr());
      auto there = made(kernel->neighbours()), modelled = made(model.neighbours());
      EXPECT_STREQ(asText(modelled).cStr(), asText(there).cStr()) << said.cStr();
      EXPECT_STREQ(asIp(there, *kernel).cStr(), ipNeighbours().cStr()) << said.cStr();
    }
  });
}

// Catches: a request that only one of the two kernels takes, because it cannot be said.
TEST(NetlinkKernelRules, BothRefuseWhatCannotBeSaid) {
  inNamespace([] {
    auto kernel = openKernel();
    ModelKernel model;
    Neighbour endless{.link = 1, .address = ip("10.0.0.1"), .state = NUD_PERMANENT};
    endless.hardwareAddress.resize(33);
    for (Kernel* each : std::initializer_list<Kernel*>{kernel.get(), &model}) {
      Change changes[] = {AddRule{{.priority = 7}}, AddNeighbour{endless}};
      for (auto& answer : each->apply(changes)) {
        EXPECT_EQ(KJ_ASSERT_NONNULL(answer).code, EINVAL);
      }
    }
  });
}

// Catches: a change of rules or neighbours that nobody is told of.
TEST(NetlinkKernelNeighbours, TheMonitorTellsWhatItWasAskedFor) {
  inNamespace([] {
    auto io = kj::setupAsyncIo();
    auto kernel = openKernel();
    unsigned link = addLink(*kernel, "left", Veth{kj::str("right")});
    auto usual = openMonitor(io.unixEventPort);
    auto rules = openMonitor(
        io.unixEventPort, 1 << 16,
        {.links = false, .addresses = false, .routes = false, .rules = true, .neighbours = false});
    auto neighbours = openMonitor(
        io.unixEventPort, 1 << 16,
        {.links = false, .addresses = false, .routes = false, .rules = false, .neighbours = true});
    // The kernel tells before it answers the change.
    auto heard = [&](Monitor& monitor) {
      auto next = monitor.next();
      return next.poll(io.waitScope) ? next.wait(io.waitScope) : Notice();
    };
    for (int family : {AF_INET, AF_INET6}) {
      Rule rule{.family = family, .priority = 7, .table = 7};
      change(*kernel, AddRule{rule});
      EXPECT_TRUE(heard(*rules).rules);
      change(*kernel, DeleteRule{rule});
      EXPECT_TRUE(heard(*rules).rules);
      Neighbour neighbour{.link = link,
                          .address = ip(family == AF_INET ? "10.0.0.1" : "fd00::1"),
                          .hardwareAddress = kMac,
                          .state = NUD_PERMANENT};
      change(*kernel, AddNeighbour{neighbour});
      EXPECT_TRUE(heard(*neighbours).neighbours);
      change(*kernel, DeleteNeighbour{neighbour});
      EXPECT_TRUE(heard(*neighbours).neighbours);
    }
    auto other = heard(*usual);
    EXPECT_FALSE(other.rules || other.neighbours);
  });
}

}  // namespace
}  // namespace talos::netlink
