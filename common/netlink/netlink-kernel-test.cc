// The netlink layer against the real kernel, in a network namespace that each test makes for
// itself. Needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN); the host's own network is never touched.
#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.h"
#include "common/netlink/model/test-kernel.h"
#include "common/netlink/netlink-generic.h"
#include "common/netlink/netlink-socket.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"
#include "common/testing/test-namespace.h"

namespace talos::netlink {
namespace {

kj::Array<Failure> failuresOf(Kernel& kernel, kj::ArrayPtr<const Change> changes) {
  kj::Vector<Failure> result;
  for (auto& failure : kernel.apply(changes)) {
    KJ_IF_MAYBE (f, failure) result.add(kj::mv(*f));
  }
  return result.releaseAsArray();
}

bool has(Kernel& kernel, unsigned link, kj::StringPtr address) {
  for (auto& a : kernel.addresses()) {
    if (a.link == link && a.prefix == prefix(address)) return true;
  }
  return false;
}

size_t count(Kernel& kernel, kj::StringPtr destination) {
  size_t result = 0;
  for (auto& r : kernel.routes()) {
    if (r.destination == prefix(destination) && r.table == RT_TABLE_MAIN) ++result;
  }
  return result;
}

// Catches: a request that the kernel interprets differently from its meaning here.
TEST(NetlinkKernel, MakesChangesAndDeletes) {
  inNamespace([] {
    auto kernel = openKernel();
    unsigned bridge = addLink(*kernel, "br-test", Bridge{});
    unsigned veth = addVeth(*kernel, "left", "right");
    unsigned right = indexOf(*kernel, "right");
    setMaster(*kernel, right, bridge);
    rename(veth, "wan0");
    change(*kernel, SetLink{.index = veth, .up = true, .mtu = 1400});
    for (unsigned index : {bridge, right}) setUp(*kernel, index);

    auto wan = KJ_ASSERT_NONNULL(findLink(*kernel, "wan0"));
    EXPECT_TRUE(wan.up());
    EXPECT_EQ(wan.mtu, 1400u);
    EXPECT_STREQ(wan.kind.cStr(), "veth");
    EXPECT_EQ(wan.parent, right);
    EXPECT_EQ(wan.hardwareAddress.size(), 6u);
    EXPECT_EQ(KJ_ASSERT_NONNULL(findLink(*kernel, "right")).master, bridge);

    Address address{.link = veth, .prefix = prefix("10.5.0.2/24"), .protocol = 116};
    Route route{.destination = Prefix::all(AF_INET),
                .gateway = ip("10.5.0.1"),
                .link = veth,
                .metric = 10,
                .protocol = 116};
    Change changes[] = {AddAddress{address}, AddRoute{route}};
    EXPECT_EQ(failuresOf(*kernel, changes).size(), 0u);
    bool marked = false;
    for (auto& a : kernel->addresses()) marked = marked || (a.link == veth && a.protocol == 116);
    EXPECT_TRUE(marked);
    EXPECT_EQ(count(*kernel, "0.0.0.0/0"), 1u);
    for (auto& r : kernel->routes()) EXPECT_EQ(r.table, unsigned(RT_TABLE_MAIN));  // not the local
    setUp(*kernel, indexOf(*kernel, "lo"));
    std::vector<std::string> all;
    for (auto& r : kernel->allRoutes()) {
      all.push_back(
          kj::str(tableName(r.table), " ", routeTypeName(r.type), " ", r.destination).cStr());
    }
    EXPECT_THAT(all,
                ::testing::IsSupersetOf({"local local 127.0.0.0/8", "local local 10.5.0.2/32",
                                         "local local ::1/128", "local broadcast 10.5.0.255/32",
                                         "main unicast 10.5.0.0/24", "main unicast 0.0.0.0/0"}));

    // Replacing keeps one route; the gateway is the new one.
    route.gateway = ip("10.5.0.9");
    change(*kernel, AddRoute{route, true});
    EXPECT_EQ(count(*kernel, "0.0.0.0/0"), 1u);

    Change undo[] = {DeleteRoute{route}, DeleteAddress{address}, DeleteLink{bridge}};
    EXPECT_EQ(failuresOf(*kernel, undo).size(), 0u);
    EXPECT_EQ(count(*kernel, "0.0.0.0/0"), 0u);
    EXPECT_FALSE(has(*kernel, veth, "10.5.0.2/24"));
    EXPECT_TRUE(findLink(*kernel, "br-test") == nullptr);
  });
}

// Catches: an end of a pair without its mark, or that is read as the end of another pair; routes of
// another table in the answer.
TEST(NetlinkKernel, PairsAndTables) {
  inNamespace([] {
    auto kernel = openKernel();
    change(*kernel, AddLink{kj::str("va"), Veth{kj::str("vb")}, 116, 1400});
    auto at = [&](kj::StringPtr name) { return KJ_ASSERT_NONNULL(findLink(*kernel, name)); };
    EXPECT_EQ(at("va").parent, at("vb").index);
    EXPECT_EQ(at("vb").parent, at("va").index);
    EXPECT_EQ(at("va").mtu, 1400u);
    for (auto name : {"va", "vb"}) {
      EXPECT_EQ(at(name).group, 116u);
      EXPECT_STREQ(at(name).kind.cStr(), "veth");
      setUp(*kernel, at(name).index);
    }
    addAddress(*kernel, at("va").index, prefix("10.1.0.1/24"));
    EXPECT_EQ(kernel->routesOf(77).size(), 0u);
    for (uint32_t table : {77u, 1000u}) {
      Route route{.destination = prefix("10.9.0.0/16"),
                  .gateway = ip("10.1.0.2"),
                  .link = at("va").index,
                  .table = table,
                  .protocol = 116};
      change(*kernel, AddRoute{route});
      auto there = kernel->routesOf(table);
      ASSERT_EQ(there.size(), 1u) << table;
      EXPECT_EQ(there[0].table, table);
      EXPECT_EQ(there[0].destination, route.destination);
    }
    for (auto& route : kernel->routes()) EXPECT_EQ(route.table, unsigned(RT_TABLE_MAIN));
    change(*kernel, DeleteLink{at("vb").index});
    EXPECT_TRUE(findLink(*kernel, "va") == nullptr);
  });
}

// Catches: a new name that changes something else of the link, or takes that of another one; a
// model that answers otherwise.
TEST(NetlinkKernel, LinksGetOtherNames) {
  auto rename = [](Kernel& kernel, unsigned left) {
    kj::Vector<kj::String> lines;
    for (auto name : {"enp0s3", "right", "enp0s3", ""}) {
      Change change = RenameLink{left, kj::str(name)};
      auto answers = kernel.apply(kj::arrayPtr(&change, 1));
      int code = 0;
      KJ_IF_MAYBE (failure, answers[0]) code = failure->code;
      bool there = findLink(kernel, "enp0s3") != nullptr,
           before = findLink(kernel, "left") != nullptr;
      lines.add(kj::str(name, " ", code, there, before, indexOf(kernel, "enp0s3") == left));
    }
    return kj::strArray(lines, ", ");
  };
  TestKernel model;
  model.plug("right");
  auto expected = rename(model, model.plug("left"));
  EXPECT_EQ(expected, kj::str("enp0s3 0truefalsetrue, right ", EEXIST,
                              "truefalsetrue, enp0s3 0truefalsetrue,  ", EINVAL, "truefalsetrue"));
  inNamespace([&] {
    auto kernel = openKernel();
    EXPECT_EQ(rename(*kernel, addVeth(*kernel, "left", "right")), expected);
  });
}

// Catches: a change that cannot be encoded and keeps all others from being made.
TEST(NetlinkKernel, AChangeThatIsNoMessageFailsAlone) {
  inNamespace([] {
    auto kernel = openKernel();
    unsigned veth = addVeth(*kernel, "left", "right");
    BondOptions tooMuch;
    tooMuch.arpTargets = std::vector<Ip>(4000, ip("10.0.0.1"));
    Change changes[] = {SetLink{.index = veth, .mtu = 1400},
                        AddLink{kj::str("sixteencharacter"), Dummy{}}, SetBond{veth, tooMuch},
                        AddAddress{{.link = veth, .prefix = prefix("10.5.0.2/24")}}};
    auto answers = kernel->apply(changes);
    ASSERT_EQ(answers.size(), 4u);
    EXPECT_TRUE(answers[0] == nullptr && answers[3] == nullptr);
    auto& name = KJ_ASSERT_NONNULL(answers[1]);
    EXPECT_EQ(name.code, EINVAL);
    EXPECT_EQ(name.reason, "link name \"sixteencharacter\": must have 1 to 15 characters");
    EXPECT_EQ(KJ_ASSERT_NONNULL(answers[2]).code, EINVAL);
    EXPECT_TRUE(has(*kernel, veth, "10.5.0.2/24"));
    Change none[] = {AddLink{kj::str("sixteencharacter"), Dummy{}}};
    EXPECT_EQ(failuresOf(*kernel, none).size(), 1u);
    Change before[] = {AddLink{kj::str("sixteencharacter"), Dummy{}},
                       SetLink{.index = 9999, .up = true}};
    auto late = kernel->apply(before);
    EXPECT_EQ(KJ_ASSERT_NONNULL(late[1]).code, ENODEV);
  });
}

// Catches: one failure in a batch hiding the others or being counted for the wrong change.
TEST(NetlinkKernel, EachChangeOfABatchHasItsOwnAnswer) {
  inNamespace([] {
    auto kernel = openKernel();
    unsigned veth = addVeth(*kernel, "left", "right");
    setUp(*kernel, veth);
    Address good{.link = veth, .prefix = prefix("10.5.0.2/24")};
    Route lost{.destination = prefix("10.9.0.0/16"), .gateway = ip("192.0.2.1"), .link = veth};
    Change changes[] = {AddAddress{good}, AddAddress{good}, AddRoute{lost},
                        SetLink{.index = 9999, .up = true}};
    auto answers = kernel->apply(changes);
    EXPECT_TRUE(answers[0] == nullptr);
    EXPECT_EQ(KJ_ASSERT_NONNULL(answers[1]).code, EEXIST);
    auto& unreachable = KJ_ASSERT_NONNULL(answers[2]);
    EXPECT_EQ(unreachable.code, ENETUNREACH);
    // The error text of the kernel was passed on (extended acknowledgement).
    EXPECT_TRUE(strstr(unreachable.message.cStr(), "Nexthop has invalid gateway") != nullptr)
        << unreachable.message.cStr();
    EXPECT_EQ(KJ_ASSERT_NONNULL(answers[3]).code, ENODEV);
  });
}

// Catches: lists that are cut at one datagram, and batches larger than one write.
TEST(NetlinkKernel, ListsAndBatchesOfAnySize) {
  inNamespace([] {
    auto kernel = openKernel();
    unsigned veth = addVeth(*kernel, "left", "right");
    setUp(*kernel, veth);
    kj::Vector<Change> changes;
    constexpr unsigned kCount = 2000;
    for (unsigned i = 0; i < kCount; ++i) {
      auto text = kj::str("10.", 1 + i / 250, ".", 1 + i % 250, ".1/32");
      changes.add(AddAddress{{.link = veth, .prefix = prefix(text)}});
    }
    EXPECT_EQ(failuresOf(*kernel, changes).size(), 0u);
    EXPECT_EQ(kernel->addresses().size(), kCount);
  });
}

// Catches: a list that mixes states from before and after a change (NLM_F_DUMP_INTR ignored):
// addresses that come and go at the head of the list shift the others, which are then seen twice or
// not at all.
TEST(NetlinkKernel, ListsAreConsistentWhileTheyChange) {
  inNamespace([] {
    auto kernel = openKernel();
    unsigned veth = addVeth(*kernel, "left", "right");
    constexpr size_t kFixed = 1500;
    kj::Vector<Change> fill;
    for (unsigned i = 0; i < kFixed; ++i) {
      auto text = kj::str("10.1.", i / 250, ".", i % 250 + 1, "/32");
      fill.add(AddAddress{{.link = veth, .prefix = prefix(text)}});
    }
    EXPECT_EQ(failuresOf(*kernel, fill).size(), 0u);

    std::atomic<bool> finished{false};
    int ns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    std::thread changer([&] {
      KJ_SYSCALL(setns(ns, CLONE_NEWNET));
      auto other = openKernel();
      for (unsigned round = 0; round < 1500; ++round) {
        Address moving{.link = veth, .prefix = prefix("10.9.0.1/32"), .scope = RT_SCOPE_HOST};
        Change changes[] = {AddAddress{moving}, DeleteAddress{moving}};
        other->apply(changes);
      }
      finished = true;
    });
    for (bool last = false; !last;) {
      last = finished;
      // The kernel may give up on a list that changes all the time; a list that it returns must be
      // complete.
      (void)kj::runCatchingExceptions([&] {
        size_t fixed = 0;
        for (auto& a : kernel->addresses())
          fixed += prefix("10.1.0.0/16").contains(a.prefix.address);
        EXPECT_EQ(fixed, kFixed);
      });
    }
    changer.join();
    close(ns);
  });
}

// Catches: a refusal that is given to another change, or lost, when many go together and only the
// last of each write is acknowledged.
TEST(NetlinkKernel, SaysOfManyChangesWhichWereRefused) {
  inNamespace([] {
    auto kernel = openKernel();
    unsigned veth = addVeth(*kernel, "left", "right");
    constexpr unsigned kMany = 700;
    auto fails = [](unsigned i) { return i % 97 == 5 || i % 128 == 127 || i + 1 == kMany; };
    kj::Vector<Change> many;
    for (unsigned i = 0; i < kMany; ++i) {
      kj::byte octets[] = {10, 6, kj::byte(i / 256), kj::byte(i % 256)};
      Address address{.link = fails(i) ? 9999 : veth,
                      .prefix = Prefix::host(KJ_ASSERT_NONNULL(Ip::fromBytes(octets)))};
      many.add(AddAddress{address});
    }
    auto failures = kernel->apply(many);
    ASSERT_EQ(failures.size(), many.size());
    for (unsigned i = 0; i < kMany; ++i) {
      EXPECT_EQ(failures[i] != nullptr, fails(i)) << i;
      KJ_IF_MAYBE (failure, failures[i]) EXPECT_EQ(failure->code, ENODEV);
    }
    size_t there = 0;
    for (auto& a : kernel->addresses()) there += a.link == veth && a.prefix.length == 32;
    size_t refused = 0;
    for (unsigned i = 0; i < kMany; ++i) refused += fails(i);
    EXPECT_EQ(there, kMany - refused);
  });
}

// Catches: more in one write than the socket takes, and more refusals than it holds.
TEST(NetlinkKernel, RefusesAnyNumberOfAnySize) {
  inNamespace([] {
    auto kernel = openKernel();
    unsigned veth = addVeth(*kernel, "left", "right");
    kj::Vector<Change> small, large;
    for (unsigned i = 0; i < 10'000; ++i) small.add(DeleteLink{9999});
    BondOptions options;
    options.arpTargets = std::vector<Ip>(900, ip("10.0.0.1"));
    for (unsigned i = 0; i < 120; ++i) large.add(SetBond{veth, options});  // of 7 KiB
    for (auto changes : {&small, &large}) {
      for (auto& answer : kernel->apply(*changes)) {
        auto& failure = KJ_ASSERT_NONNULL(answer);
        EXPECT_NE(failure.code, ENOBUFS) << failure.message.cStr();
      }
    }
  });
}

// Catches: a change that is not reported, and an overrun that looks like silence.
TEST(NetlinkKernel, TheMonitorTellsChangesAndOverruns) {
  inNamespace([] {
    auto io = kj::setupAsyncIo();
    auto kernel = openKernel();
    auto monitor = openMonitor(io.unixEventPort);
    auto next = monitor->next();
    EXPECT_FALSE(next.poll(io.waitScope));
    unsigned veth = addVeth(*kernel, "left", "right");
    ASSERT_TRUE(next.poll(io.waitScope));  // the kernel notifies before it answers the change
    EXPECT_TRUE(next.wait(io.waitScope).links);

    change(*kernel, AddAddress{{.link = veth, .prefix = prefix("10.5.0.2/24")}});
    next = monitor->next();
    ASSERT_TRUE(next.poll(io.waitScope));
    EXPECT_TRUE(next.wait(io.waitScope).addresses);

    // Changes are reported only while it listens.
    monitor->take();
    monitor->listen(false);
    addVeth(*kernel, "unheard", "too");
    monitor->listen(true);
    change(*kernel, DeleteAddress{{.link = veth, .prefix = prefix("10.5.0.2/24")}});
    auto heard = monitor->take();
    EXPECT_TRUE(heard.addresses);
    EXPECT_FALSE(heard.links);

    // More than the socket holds, unread.
    kj::Vector<Change> many;
    for (unsigned round = 0; round < 6000; ++round) {
      Address address{.link = veth, .prefix = prefix("10.6.0.2/32")};
      many.add(AddAddress{address});
      many.add(DeleteAddress{address});
    }
    kernel->apply(many);
    bool overrun = false;
    for (;;) {
      auto notice = monitor->next();
      if (!notice.poll(io.waitScope)) break;
      overrun = overrun || notice.wait(io.waitScope).overrun;
    }
    EXPECT_TRUE(overrun);
  });
}

// Returns the outcome of the same changes, equal for both kernels: link, address and route counts
// and errno values.
kj::String story(Kernel& kernel, unsigned link) {
  kj::Vector<kj::String> lines;
  auto note = [&](Change change) {
    Change one[] = {kj::mv(change)};
    auto failures = failuresOf(kernel, one);
    size_t routes = 0, addresses = 0;
    for (auto& r : kernel.routes()) {
      routes +=
          r.link == link && r.table == RT_TABLE_MAIN && r.destination.address.family() == AF_INET;
    }
    for (auto& a : kernel.addresses())
      addresses += a.link == link && a.prefix.address.family() == AF_INET;
    lines.add(kj::str(describe(one[0]), " -> ",
                      failures.size() > 0 ? strerror(failures[0].code) : "ok", ", ", addresses,
                      " addresses, ", routes, " routes"));
  };
  auto address = [&](kj::StringPtr text) { return Address{.link = link, .prefix = prefix(text)}; };
  auto route = [&](kj::StringPtr to, kj::StringPtr via, unsigned metric) {
    return Route{.destination = prefix(to),
                 .gateway = ip(via),
                 .link = link,
                 .metric = metric,
                 .protocol = 116};
  };
  note(AddRoute{route("0.0.0.0/0", "10.5.0.1", 10)});  // link is down
  note(AddAddress{address("10.5.0.2/24")});
  note(SetLink{.index = link, .up = true});
  note(AddAddress{address("10.5.0.2/24")});  // exists
  note(AddAddress{.address = address("10.5.0.2/24"), .replace = true});
  note(AddAddress{.address = address("10.5.0.50/32"), .replace = true, .lifetime = 60});
  note(AddAddress{.address = address("10.5.0.50/32"), .replace = true, .lifetime = 50});
  note(AddAddress{.address = address("10.5.0.50/32"), .lifetime = 50});  // exists
  note(DeleteAddress{address("10.5.0.50/32")});
  note(AddAddress{address("10.5.0.3/24")});  // secondary
  note(AddRoute{route("0.0.0.0/0", "10.5.0.1", 10)});
  note(AddRoute{route("0.0.0.0/0", "10.5.0.1", 10)});  // exists
  note(AddRoute{route("0.0.0.0/0", "10.5.0.7", 10)});  // same place, other gateway
  note(AddRoute{route("0.0.0.0/0", "10.5.0.7", 10), true});
  note(AddRoute{route("10.9.0.0/16", "192.0.2.1", 10)});  // unreachable gateway
  note(DeleteRoute{route("0.0.0.0/0", "10.5.0.1", 10)});  // the route has changed
  note(DeleteAddress{address("10.5.0.2/24")});  // takes the secondary and the routes along
  note(DeleteAddress{address("10.5.0.2/24")});
  note(AddAddress{address("10.5.0.4/24")});
  note(AddRoute{route("0.0.0.0/0", "10.5.0.1", 10)});
  note(SetLink{.index = link, .up = false});
  note(SetLink{.index = link, .up = true});
  return kj::strArray(lines, "\n");
}

// Catches: a model that is kinder than Linux, under which a planner would be tested for nothing.
TEST(NetlinkKernel, TheModelBehavesAsLinuxDoes) {
  inNamespace([] {
    auto kernel = openKernel();
    unsigned veth = addVeth(*kernel, "left", "right");
    TestKernel model;
    // The same index, so that the texts can be compared.
    unsigned hardware = 0;
    for (unsigned i = 0; hardware != veth; ++i) hardware = model.plug(kj::str("eth", i));
    EXPECT_STREQ(story(model, hardware).cStr(), story(*kernel, veth).cStr());
  });
}

// Catches: a model in which loopback does not get its addresses by itself, or gets them before it
// is up.
TEST(NetlinkKernel, LoopbackGetsItsAddressesByItself) {
  inNamespace([] {
    auto kernel = openKernel();
    TestKernel model;
    for (Kernel* each : std::initializer_list<Kernel*>{kernel.get(), &model}) {
      EXPECT_FALSE(has(*each, 1, "127.0.0.1/8"));
      setUp(*each, 1);
      EXPECT_TRUE(has(*each, 1, "127.0.0.1/8"));
      EXPECT_TRUE(has(*each, 1, "::1/128"));
    }
  });
}

// Catches: a socket that listens to another group, or to none; an error for a group that a kernel
// may lack.
TEST(NetlinkKernel, ListensToAGroupOfAFamily) {
  KJ_IF_MAYBE (fd, listenToGroup("nlctrl", "notify")) {
    // The groups that it is in, as bits; that of the controller is the first of all.
    std::array<uint32_t, 64> groups = {};
    socklen_t size = sizeof(groups);
    KJ_SYSCALL(getsockopt(*fd, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, groups.data(), &size));
    EXPECT_EQ(1u << (GENL_ID_CTRL - 1), groups[0]);
  } else {
    ADD_FAILURE() << "not found";
  }
  EXPECT_TRUE(listenToGroup("nlctrl", "nobody") == nullptr);
  EXPECT_TRUE(listenToGroup("no_such_family", "notify") == nullptr);
}

}  // namespace
}  // namespace talos::netlink
