// The steps of the reconciler, and their times.
#include <errno.h>

#include <string>

#include "common/base/resource.h"
#include "networkd/control/networkd-server.h"
#include "networkd/control/test-network-reconciler.h"
#include "rpc/local.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {
namespace {

// Catches: "no specs yet" taken for "no specs", which would remove the network at every start.
TEST_F(NetworkReconcilerTest, ChangesNothingBeforeTheSpecsHaveArrived) {
  specs();
  start();
  EXPECT_TRUE(hasDefault());
  kill();
  store.synced = false;
  kernel.takeChangeCount();
  start();
  auto ready = KJ_ASSERT_NONNULL(reconciler)->ready();
  EXPECT_FALSE(ready.poll(scope));
  EXPECT_EQ(kernel.takeChangeCount(), 0u);
  EXPECT_TRUE(hasDefault());
  store.synced = true;
  work.raise();
  EXPECT_TRUE(ready.poll(scope));
}

// Catches: a flap: steps that are repeated although nothing differs, after a wake-up or after a
// crash.
TEST_F(NetworkReconcilerTest, ASecondPassAndARestartSendNothing) {
  specs();
  start();
  EXPECT_GT(kernel.takeChangeCount(), 0u);
  work.raise();
  settle();
  pass(1 * kj::SECONDS);
  kill();
  start();
  EXPECT_EQ(kernel.takeChangeCount(), 0u);
  EXPECT_EQ(store.network().getApplied(), 3u);
  EXPECT_EQ(store.network().getProblems().size(), 0u);
}

// Catches: a complete read and report in answer to networkd's own changes.
TEST_F(NetworkReconcilerTest, DoesNotReadAgainAfterItsOwnChanges) {
  specs();
  start();
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(hasDefault());
  EXPECT_EQ(store.published, 1u);
  netlink::change(kernel, netlink::SetLink{.index = eth0, .mtu = 1400u});
  pass(1 * kj::SECONDS);
  EXPECT_EQ(store.published, 2u);  // Another program's changes cause a read.
  pass(1 * kj::SECONDS);
  store.addresses.add(kj::str("10.8.0.2/24"));  // while networkd waits for the kernel
  work.raise();
  auto before = host.looks;
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(has("10.8.0.2/24"));
  EXPECT_EQ(store.published, 3u);
  EXPECT_EQ(host.looks, before + 2);  // a read to plan, and a read to confirm
}

// Catches: a rule that is not made, or not restored when another program removes it; one that
// stays, or a route in a table that no spec names any more, after a networkd that was killed
// meanwhile.
TEST_F(NetworkReconcilerTest, RulesAndTablesOutliveNeitherTheirSpecsNorACrash) {
  auto rules = [&] {
    size_t count = 0;
    for (auto& rule : kernel.rules()) count += rule.protocol == kMark;
    return count;
  };
  specs();
  store.more = [](Wanted& wanted) {
    wanted.rules.add(
        WantedRule{netlink::Rule{.priority = 1500, .table = 77, .protocol = kMark}, 1});
    wanted.routes.add(WantedRoute{
        .destination = Prefix::all(AF_INET), .version = 1, .type = RTN_BLACKHOLE, .table = 77});
  };
  start();
  EXPECT_EQ(rules(), 1u);
  EXPECT_EQ(kernel.routesOf(77).size(), 1u);
  EXPECT_EQ(store.network().getApplied(), 5u);
  netlink::change(kernel, netlink::DeleteRule{{.priority = 1500, .protocol = kMark}});
  EXPECT_EQ(rules(), 0u);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(rules(), 1u);
  EXPECT_EQ(store.network().getRepairs(), 1u);
  kill();
  store.more = [](Wanted&) {};
  start();
  EXPECT_EQ(rules(), 0u);
  EXPECT_EQ(kernel.routesOf(77).size(), 0u);
}

// Catches: an MTU that stays although no spec sets it any more, even when networkd was killed in
// between; an MTU that is reverted although another program chose it.
TEST_F(NetworkReconcilerTest, HardwareGoesBackToTheMtuThatItHad) {
  auto mtu = [&] { return KJ_ASSERT_NONNULL(netlink::findLink(kernel, "eth0")).mtu; };
  netlink::change(kernel, netlink::SetLink{.index = eth0, .mtu = 1450u});
  specs();
  store.mtu = 9000;
  start();
  EXPECT_EQ(mtu(), 9000u);
  kill();
  store.mtu = 0;
  start();
  EXPECT_EQ(mtu(), 1450u);
  EXPECT_STREQ(host.firstMtus.cStr(), "");
  netlink::change(kernel, netlink::SetLink{.index = eth0, .mtu = 1300u});
  work.raise();
  pass(1 * kj::SECONDS);
  EXPECT_EQ(mtu(), 1300u);
}

// Catches: a link that appears later (a cable, a module) never being configured.
TEST_F(NetworkReconcilerTest, ConfiguresALinkThatAppearsLater) {
  kernel.unplug(eth0);
  specs();
  start();
  auto problems = store.network().getProblems();
  ASSERT_GT(problems.size(), 0u);
  EXPECT_STREQ(problems[0].cStr(), "link eth0: unknown link \"eth0\"; known links: lo");
  kernel.plug("eth0");
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(hasDefault());
  EXPECT_EQ(store.network().getProblems().size(), 0u);
}

// Catches: a card whose driver loads after the boot has set the existing links (as on most
// machines), or a bond, on which the kernel ignores routers because the node forwards;
// solicitations before this setting; the setting on links where a pod could send routes to the
// node; another program's setting that is overwritten.
TEST_F(NetworkReconcilerTest, RoutersAreHeardOnTheNodesOwnLinksFromTheirStart) {
  kj::Vector<kj::String> heard;
  host.acceptsRouters = [&](kj::StringPtr link) {
    bool up = KJ_ASSERT_NONNULL(netlink::findLink(kernel, link)).up();
    heard.add(kj::str(link, up ? " too late" : ""));
  };
  auto listened = [&] {
    auto text = kj::strArray(heard, " ");
    heard.clear();
    return text;
  };
  kernel.unplug(eth0);
  netlink::addLink(kernel, "cni0", netlink::Bridge{});
  kernel.plug("eth9");  // in no spec
  specs();
  store.more = [](Wanted& wanted) {
    auto add = [&](kj::StringPtr name, kj::StringPtr kind) {
      wanted.links.add(WantedLink{.name = kj::str(name), .kind = kj::str(kind)});
    };
    add("cni0", "");
    add("bond0", "bond");
    add("br0", "bridge");
    add("dummy0", "dummy");
  };
  start();
  EXPECT_EQ(listened(), "bond0");
  eth0 = kernel.plug("eth0");
  pass(1 * kj::SECONDS);
  EXPECT_EQ(listened(), "eth0");
  netlink::setUp(kernel, eth0, false);
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(netlink::findLink(kernel, "eth0")).up());
  EXPECT_EQ(listened(), "");
}

// Catches: an address that stays although no spec wants it, and a successor that is not added.
TEST_F(NetworkReconcilerTest, FollowsTheSpecs) {
  specs();
  start();
  store.addresses[0] = kj::str("10.5.0.3/24");
  work.raise();
  settle();
  EXPECT_FALSE(has("10.5.0.2/24"));
  EXPECT_TRUE(has("10.5.0.3/24"));
  EXPECT_TRUE(hasDefault());  // It vanished with the old address and was restored.
  EXPECT_EQ(store.network().getRepairs(), 0u);
}

// Catches: a refusing kernel that is hammered, or given up on; a back-off that a success does not
// reset.
TEST_F(NetworkReconcilerTest, RetriesWithGrowingPauses) {
  specs();
  kernel.refuse(eth0, EBUSY);
  start();
  pass(25 * kj::MILLISECONDS);  // notices of the part that worked (loopback)
  ASSERT_EQ(store.network().getProblems().size(), 3u);
  EXPECT_STREQ(store.network().getProblems()[0].cStr(), "link eth0: Device or resource busy");
  kernel.takeChangeCount();
  kj::Vector<int64_t> pauses;
  auto before = timer.now();
  while (pauses.size() < 12) {
    pass(50 * kj::MILLISECONDS);
    if (kernel.takeChangeCount() == 0) continue;
    pauses.add((timer.now() - before) / kj::MILLISECONDS);
    before = timer.now();
  }
  for (size_t i = 2; i < pauses.size(); ++i) EXPECT_GE(pauses[i] + 50, pauses[i - 1]);
  EXPECT_LE(pauses[0], 1000);
  EXPECT_GE(pauses.back(), 20'000);
  EXPECT_LE(pauses.back(), 60'050);

  kernel.refuse(eth0, 0);
  pass(61 * kj::SECONDS);
  EXPECT_TRUE(hasDefault());
  EXPECT_EQ(store.network().getProblems().size(), 0u);
  kernel.refuse(eth0, EBUSY);
  netlink::change(kernel, netlink::DeleteAddress{{.link = eth0, .prefix = prefix("10.5.0.2/24")}});
  pass(1 * kj::SECONDS);
  kernel.refuse(eth0, 0);
  pass(1 * kj::SECONDS);  // short again
  EXPECT_TRUE(hasDefault());
}

// Catches: an existing address or route reported as a problem, and a link's failure that is not
// reported.
TEST_F(NetworkReconcilerTest, WhatIsSoAlreadyIsNoProblem) {
  specs();
  kernel.refuse(eth0, EEXIST);
  start();
  pass(25 * kj::MILLISECONDS);
  ASSERT_EQ(store.network().getProblems().size(), 1u) << "not of the address and the route";
  EXPECT_STREQ(store.network().getProblems()[0].cStr(), "link eth0: File exists");
  kernel.refuse(eth0, 0);
  pass(61 * kj::SECONDS);
  ASSERT_TRUE(hasDefault());
}

// Catches: an unreachable store that stops the repair of the network, or never gets a report again.
TEST_F(NetworkReconcilerTest, AStoreThatIsAwayStopsNothing) {
  specs();
  start();
  store.broken = true;
  netlink::change(kernel, netlink::DeleteAddress{{.link = eth0, .prefix = prefix("10.5.0.2/24")}});
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(has("10.5.0.2/24"));
  auto before = store.published;
  store.broken = false;
  for (unsigned i = 0; i < 60 && store.published == before; ++i) pass(1 * kj::SECONDS);
  EXPECT_GT(store.published, before);
}

// Catches: events that the kernel lost, taken for silence.
TEST_F(NetworkReconcilerTest, ReadsAgainAfterAnOverrun) {
  specs();
  start();
  pass(1 * kj::SECONDS);
  auto before = store.published;
  kernel.overrun();
  pass(1 * kj::SECONDS);
  EXPECT_GT(store.published, before);
}

// Catches: a failure to write the resolver file that is ignored.
TEST_F(NetworkReconcilerTest, AFailedFileIsAProblemAndTriedAgain) {
  specs();
  host.diskFull = true;
  start();
  ASSERT_EQ(store.network().getProblems().size(), 1u);
  host.diskFull = false;
  pass(1 * kj::SECONDS);
  EXPECT_EQ(store.network().getProblems().size(), 0u);
}

// Catches: a port of WireGuard that stays although no spec has one any more, even when networkd was
// killed in between; the kernel's choice that is taken for a change to restore.
TEST_F(NetworkReconcilerTest, AWireguardPortThatNoSpecHasIsGivenBack) {
  uint16_t port = 51820;
  specs();
  store.more = [&](Wanted& wanted) {
    auto& wg0 = wanted.links.add(WantedLink{.name = kj::str("wg0"), .kind = kj::str("wireguard")});
    wg0.wireguard.privateKey =
        netlink::WireguardSecret::parse("CAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    wg0.wireguard.listenPort = port;
  };
  start();
  unsigned wg0 = netlink::indexOf(kernel, "wg0");
  EXPECT_EQ(kernel.wireguard(wg0).listenPort, 51820);
  kill();
  port = 0;
  start();
  EXPECT_EQ(kernel.wireguard(wg0).listenPort, 0);  // Linux chooses a port now.
  EXPECT_STREQ(host.tunnelPorts.cStr(), "");
  netlink::change(kernel, netlink::SetWireguard{.index = wg0, .listenPort = 40123});
  work.raise();
  pass(1 * kj::SECONDS);
  EXPECT_EQ(kernel.wireguard(wg0).listenPort, 40123);
  EXPECT_EQ(store.network().getRepairs(), 0u);
}

// Catches: a peer that roamed and fell silent, and whose configured endpoint is never tried again,
// because no other event occurs.
TEST_F(NetworkReconcilerTest, APeerThatRoamedAndFellSilentIsCalledAgain) {
  auto at = [](kj::StringPtr text) { return KJ_ASSERT_NONNULL(Endpoint::parse(text)); };
  netlink::WireguardKey key{7};
  specs();
  store.more = [&](Wanted& wanted) {
    auto& wg0 = wanted.links.add(WantedLink{.name = kj::str("wg0"), .kind = kj::str("wireguard")});
    wg0.wireguard.privateKey =
        netlink::WireguardSecret::parse("CAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    wg0.wireguard.peers.add(
        WantedPeer{.publicKey = key, .resolved = at("192.0.2.1:51820"), .allowed = {}});
  };
  start();
  unsigned wg0 = netlink::indexOf(kernel, "wg0");
  auto endpoint = [&] { return kernel.wireguard(wg0).peers[0].endpoint; };
  ASSERT_TRUE(endpoint() == at("192.0.2.1:51820"));
  auto moved = at("198.51.100.1:4000");
  kernel.roam(wg0, key, moved, time(nullptr) - 100);
  work.raise();  // any event
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(endpoint() == moved) << "it works";
  kernel.roam(wg0, key, moved, time(nullptr) - 300);  // stands for the time that passes below
  pass(70 * kj::SECONDS);
  EXPECT_TRUE(endpoint() == moved) << "not before the session is dead";
  pass(15 * kj::SECONDS);
  EXPECT_TRUE(endpoint() == at("192.0.2.1:51820"));
  EXPECT_EQ(store.network().getRepairs(), 0u) << "no other program's change";
}

class FakeCaptures final : public Captures {
 public:
  kj::String link;
  kj::Promise<Counts> capture(rpc::Network::CaptureParams::Reader wanted) override {
    link = kj::str(wanted.getLink());
    return Counts{7, 2};
  }
};

// The resolver of the node, with the addresses that the files have named.
struct FakeResolver final : public LocalResolver {
  ResolverAddresses now;
  std::string inFiles;
  ResolverAddresses answering() const override { return {now.node, now.pods}; }
  void named(ResolverAddresses addresses) override {
    inFiles = kj::str(addresses.node.size(), " ", addresses.pods.size()).cStr();
  }
};

// Catches: a node that does not use its resolver, or uses it after it has stopped; pods that get
// the address of the node itself; a report that files name it although they could not be written.
TEST_F(NetworkReconcilerTest, TheResolverFilesNameTheLocalResolver) {
  specs();
  FakeResolver resolver;
  NetworkReconciler reconciler(
      kernel, *monitor, store, host, timer, work, [] { return 0.5; }, nullptr, resolver);
  auto looping = watched(reconciler.run());
  settle();
  EXPECT_EQ(" ", kj::str(host.file, " ", host.podFile));
  EXPECT_EQ("0 0", resolver.inFiles);
  host.diskFull = true;
  resolver.now.node = {ip("127.0.0.53")};
  work.raise();
  settle();
  EXPECT_EQ("0 0", resolver.inFiles);
  host.diskFull = false;
  resolver.now.pods = {ip("169.254.116.108"), ip("fd54:616c:6f73::204f:5320:444e:531")};
  work.raise();
  settle();
  EXPECT_EQ("nameserver 127.0.0.53\n", host.file);
  EXPECT_EQ("nameserver 169.254.116.108\nnameserver fd54:616c:6f73:0:204f:5320:444e:531\n",
            host.podFile);
  EXPECT_EQ("1 2", resolver.inFiles);
  resolver.now = {};
  work.raise();
  settle();
  EXPECT_EQ(" ", kj::str(host.file, " ", host.podFile));
}

// Catches: a dry run that does not see another program's route in a table that no earlier spec has.
TEST_F(NetworkReconcilerTest, APreviewReadsTheTablesOfItsRoutes) {
  specs();
  start();
  netlink::Route theirs{.destination = prefix("10.9.0.0/16"),
                        .gateway = ip("10.5.0.1"),
                        .link = eth0,
                        .metric = 10,
                        .table = 77,
                        .protocol = RTPROT_STATIC};
  netlink::change(kernel, netlink::AddRoute{theirs});
  capnp::MallocMessageBuilder message;
  auto list = message.initRoot<rpc::Networkd::PlanParams>().initSpecs(3);
  auto fill = [&]<typename Spec>(Spec*, unsigned i) {
    list[i].initMetadata().setType(typeName<Spec>());
    return list[i].getSpec().initAs<Spec>();
  };
  auto link = fill((rpc::LinkSpecSpec*)nullptr, 0);
  link.setName("eth0");
  link.setUp(true);
  auto address = fill((rpc::AddressSpecSpec*)nullptr, 1);
  address.setAddress("10.5.0.2/24");
  address.setLinkName("eth0");
  auto spec = fill((rpc::RouteSpecSpec*)nullptr, 2);
  spec.setFamily("inet4");
  spec.setDestination("10.9.0.0/16");
  spec.setMetric(10);
  spec.setType(config::RouteType::BLACKHOLE);
  spec.setTable("77");
  auto preview = KJ_ASSERT_NONNULL(reconciler)->preview(list.asReader());
  std::string problems = kj::strArray(preview.problems, "; ").cStr();
  EXPECT_NE(problems.npos, problems.find("metric 10 is used by another route"))
      << problems << kj::strArray(preview.steps, "; ").cStr();
}

// Catches: an API that answers from memory instead of from the kernel, and a readiness that comes
// too early.
TEST_F(NetworkReconcilerTest, TheServerReportsTheKernelAsItIs) {
  start();
  FakeCaptures captures;
  auto server = makeServer(*KJ_ASSERT_NONNULL(reconciler), captures);
  auto ready = server.readyRequest().send();
  EXPECT_FALSE(ready.poll(scope));
  specs();
  work.raise();
  ready.wait(scope);
  auto network = server.networkRequest().send().wait(scope).getNetwork();
  EXPECT_EQ(network.interfacesRequest().send().wait(scope).getInterfaces().size(), 2u);
  kernel.plug("eth1");
  EXPECT_EQ(network.interfacesRequest().send().wait(scope).getInterfaces().size(), 3u);
  EXPECT_GE(network.routesRequest().send().wait(scope).getRoutes().size(), 2u);
  auto request = network.captureRequest();
  request.setLink("eth1");
  auto counts = request.send().wait(scope);
  EXPECT_EQ(captures.link, "eth1");
  EXPECT_EQ(counts.getPackets(), 7u);
  EXPECT_EQ(counts.getDropped(), 2u);
}

}  // namespace
}  // namespace talos::networkd
