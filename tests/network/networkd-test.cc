// networkd as the process that a node runs: its own uid, two capabilities, an inherited socket, a
// store at the other end of a socket, and the real kernel of a network namespace that the test
// makes for itself.
#include "common/net/udp.h"
#include "common/testing/test-namespace.h"
#include "rpc/inventory-resources.capnp.h"
#include "tests/network/node.h"

namespace talos {
namespace {

template <typename F>
void onNode(F&& body) {
  inNamespace([&] {
    Node node;
    node.putLink();
    node.putAddress("10.5.0.2/24");
    node.putRoute("10.5.0.1");
    node.serve();
    node.start();
    node.until("one address with default route", [&] { return node.applied(3); });
    body(node);
  });
}

// Catches: actions that work as root and not as networkd's uid; reports and an API that cannot be
// read.
TEST(Networkd, ConfiguresAndReportsUnderItsOwnUid) {
  onNode([](Node& node) {
    EXPECT_TRUE(node.has("10.5.0.2/24"));
    EXPECT_TRUE(node.hasDefault());
    auto link = KJ_ASSERT_NONNULL(node.store.tryGet<rpc::LinkStatusSpec>("eth0"));
    EXPECT_STREQ(link.getKind().cStr(), "veth");
    EXPECT_TRUE(node.store.tryGet<rpc::AddressStatusSpec>("eth0/10.5.0.2/24") != nullptr);
    EXPECT_TRUE(node.store.tryGet<rpc::RouteStatusSpec>("10.5.0.1/") != nullptr);
    auto address = KJ_ASSERT_NONNULL(node.store.tryGet<rpc::NodeAddressSpec>("default"));
    EXPECT_STREQ(address.getAddresses()[0].cStr(), "10.5.0.2");

    node.awaitReady();
    auto network = node.dial().networkRequest().send().wait(node.io.waitScope).getNetwork();
    auto interfaces = network.interfacesRequest().send().wait(node.io.waitScope);
    EXPECT_EQ(interfaces.getInterfaces().size(), 3u);

    node.put<rpc::ResolverSpecSpec>("resolvers", [](rpc::ResolverSpecSpec::Builder spec) {
      spec.initDnsServers(1).set(0, "10.5.0.1");
    });
    node.putAddress("10.5.0.3/24");
    node.until("the new address", [&] { return node.applied(4); });
    EXPECT_STREQ(readFile(node.path("state/resolv.conf")).cStr(), "nameserver 10.5.0.1\n");
  });
}

// Catches: a resolver that networkd's confinement keeps from port 53 or from its upstreams; files
// that do not name it; an address of pods that is not on lo.
TEST(Networkd, RunsTheResolverOfTheNode) {
  onNode([](Node& node) {
    auto upstream = UdpSocket::bound(node.io.unixEventPort, {Ip::require("10.5.0.2"), 53});
    node.put<rpc::ResolverSpecSpec>("resolvers", [](rpc::ResolverSpecSpec::Builder spec) {
      spec.initDnsServers(1).set(0, "10.5.0.2");
    });
    node.put<rpc::AddressSpecSpec>("lo/169.254.116.108/32", [](rpc::AddressSpecSpec::Builder spec) {
      spec.setAddress("169.254.116.108/32");
      spec.setLinkName("lo");
      spec.setScope("host");
    });
    node.put<rpc::HostDnsConfigSpec>("config", [](rpc::HostDnsConfigSpec::Builder spec) {
      spec.setEnabled(true);
      auto addresses = spec.initListenAddresses(2);
      addresses.set(0, "127.0.0.53:53");
      addresses.set(1, "169.254.116.108:53");
      spec.setServiceHostDnsAddress("169.254.116.108");
    });
    node.until("the resolver in the files", [&] {
      KJ_IF_MAYBE (status, node.store.tryGet<rpc::HostDnsStatusSpec>("status")) {
        return status->getListening().size() == 2 && status->getNameserver() == "127.0.0.53" &&
               status->getPodNameservers().size() == 1 && status->getProblem().size() == 0;
      }
      return false;
    });
    EXPECT_STREQ(readFile(node.path("state/resolv.conf")).cStr(), "nameserver 127.0.0.53\n");
    EXPECT_STREQ(readFile(node.path("state/pod-resolv.conf")).cStr(),
                 "nameserver 169.254.116.108\n");
    node.until("the address of pods", [&] { return node.has("169.254.116.108/32"); });
    const kj::byte query[] = {0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1};
    auto receive = [&](UdpSocket& socket) {
      return node.timer.timeoutAfter(kTimeout, socket.receive()).wait(node.io.waitScope);
    };
    for (auto address : {"127.0.0.53", "169.254.116.108"}) {
      auto client = UdpSocket::connected(node.io.unixEventPort, {Ip::require(address), 53});
      client->send(kj::arrayPtr(query, sizeof query));
      // An answer without an SOA is not kept, so the second query goes to the upstream, too.
      auto asked = receive(*upstream);
      asked.bytes[2] = 0x81;
      asked.bytes[3] = 0x83;  // no such name
      upstream->answer(asked, asked.bytes);
      auto answer = receive(*client).bytes;
      EXPECT_EQ(7, answer[1]);
      EXPECT_EQ(3, answer[3] & 0xf);
    }
    node.put<rpc::HostDnsConfigSpec>("config", [](auto) {});
    node.until("the upstream in the files", [&] {
      return node.store.tryGet<rpc::HostDnsStatusSpec>("status") == nullptr &&
             readFile(node.path("state/resolv.conf")) == "nameserver 10.5.0.2\n";
    });
  });
}

// Catches: a rule or a pair that networkd may not make or remove; one that another program removes
// and that is not restored; a VRF that a kernel without VRFs does not have and that is no problem.
TEST(Networkd, MakesRulesPairsAndVrfs) {
  onNode([](Node& node) {
    node.put<rpc::RoutingRuleSpecSpec>("inet4/1500", [](rpc::RoutingRuleSpecSpec::Builder spec) {
      spec.setFamily("inet4");
      spec.setPriority(1500);
      spec.setSource("10.77.0.0/16");
      spec.setTable("77");
    });
    const std::pair<kj::StringPtr, kj::StringPtr> ends[] = {{"va"_kj, "vb"_kj}, {"vb"_kj, "va"_kj}};
    for (auto& [name, peer] : ends) {
      node.put<rpc::LinkSpecSpec>(name, [&](rpc::LinkSpecSpec::Builder spec) {
        spec.setName(name);
        spec.setUp(true);
        spec.setKind("veth");
        spec.initVeth().setPeerName(peer);
      });
    }
    node.put<rpc::RouteSpecSpec>("blackhole", [](rpc::RouteSpecSpec::Builder spec) {
      spec.setDestination("10.200.0.0/16");
      spec.setType(config::RouteType::BLACKHOLE);
      spec.setTable("77");
    });
    auto rule = [&] {
      KJ_IF_MAYBE (there, node.store.tryGet<rpc::RuleStatusSpec>("inet4/1500")) {
        return there->getRule() == "from 10.77.0.0/16 lookup 77";
      }
      return false;
    };
    auto peerOf = [&](kj::StringPtr link) {
      KJ_IF_MAYBE (there, node.store.tryGet<rpc::LinkStatusSpec>(link)) {
        return kj::str(there->getVeth().getPeerName());
      }
      return kj::str();
    };
    node.until("the rule and the pair", [&] {
      return rule() && peerOf("va") == "vb" && peerOf("vb") == "va" &&
             node.store.tryGet<rpc::RouteStatusSpec>("77//10.200.0.0/16") != nullptr;
    });
    netlink::change(*node.kernel, netlink::DeleteRule{{.priority = 1500}});
    node.until("the rule again", [&] {
      auto rules = node.kernel->rules();
      return std::any_of(rules.begin(), rules.end(), [](auto& r) { return r.priority == 1500; });
    });
    bool vrfs = false;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&] { netlink::addLink(*node.kernel, "probe", netlink::Vrf{99}); })) {
      EXPECT_TRUE(strstr(e->getDescription().cStr(), "not supported") != nullptr);
    } else {
      vrfs = true;
    }
    node.put<rpc::LinkSpecSpec>("red", [](rpc::LinkSpecSpec::Builder spec) {
      spec.setName("red");
      spec.setUp(true);
      spec.setKind("vrf");
      spec.initVrfMaster().setTable("78");
    });
    node.until("the VRF, or the problem", [&] {
      if (vrfs) return node.store.tryGet<rpc::LinkStatusSpec>("red") != nullptr;
      KJ_IF_MAYBE (status, node.store.tryGet<rpc::NetworkStatusSpec>("status")) {
        for (auto problem : status->getProblems()) {
          if (problem == "link red: Unknown device type (Operation not supported)"_kj) return true;
        }
      }
      return false;
    });
    for (auto id : {"va"_kj, "vb"_kj, "red"_kj}) {
      node.store.destroy("", typeName<rpc::LinkSpecSpec>(), id, "test");
    }
    node.store.destroy("", typeName<rpc::RoutingRuleSpecSpec>(), "inet4/1500", "test");
    node.store.destroy("", typeName<rpc::RouteSpecSpec>(), "blackhole", "test");
    node.until("everything gone", [&] {
      return node.store.tryGet<rpc::LinkStatusSpec>("va") == nullptr &&
             node.store.tryGet<rpc::LinkStatusSpec>("vb") == nullptr &&
             node.store.tryGet<rpc::RuleStatusSpec>("inet4/1500") == nullptr &&
             node.kernel->routesOf(77).size() == 0;
    });
  });
}

// Catches: rules and neighbours that are not reported, or that networkd may not write; removed
// rules and neighbours that stay in the store.
TEST(Networkd, ShowsRulesAndNeighbours) {
  onNode([](Node& node) {
    node.until("the rules that are there", [&] {
      return node.store.tryGet<rpc::RuleStatusSpec>("inet4/0") != nullptr &&
             node.store.tryGet<rpc::RuleStatusSpec>("inet6/32766") != nullptr;
    });
    netlink::Rule rule{
        .priority = 100, .from = Prefix::parse("10.9.0.0/16").orDefault({}), .table = 7};
    netlink::Neighbour neighbour{.link = node.eth0,
                                 .address = Ip::parse("10.5.0.77").orDefault({}),
                                 .hardwareAddress = {2, 0, 0, 0, 0, 1},
                                 .state = NUD_PERMANENT};
    netlink::demand(netlink::ruleMessage(RTM_NEWRULE, rule));
    netlink::demand(netlink::neighbourMessage(RTM_NEWNEIGH, neighbour));
    node.until("the new rule and neighbour", [&] {
      return node.store.tryGet<rpc::RuleStatusSpec>("inet4/100") != nullptr &&
             node.store.tryGet<rpc::NeighbourStatusSpec>("eth0/10.5.0.77") != nullptr;
    });
    auto there = KJ_ASSERT_NONNULL(node.store.tryGet<rpc::RuleStatusSpec>("inet4/100"));
    EXPECT_STREQ(there.getRule().cStr(), "from 10.9.0.0/16 lookup 7");
    auto known = KJ_ASSERT_NONNULL(node.store.tryGet<rpc::NeighbourStatusSpec>("eth0/10.5.0.77"));
    EXPECT_STREQ(kj::str(known.getHardwareAddress(), " ", known.getState()).cStr(),
                 "02:00:00:00:00:01 permanent");
    netlink::demand(netlink::ruleMessage(RTM_DELRULE, rule));
    netlink::demand(netlink::neighbourMessage(RTM_DELNEIGH, neighbour));
    node.until("them gone", [&] {
      return node.store.tryGet<rpc::RuleStatusSpec>("inet4/100") == nullptr &&
             node.store.tryGet<rpc::NeighbourStatusSpec>("eth0/10.5.0.77") == nullptr;
    });
  });
}

// Catches: a restart that removes right settings, even for a moment, or that writes stored ones
// again.
TEST(Networkd, IsKilledAndNobodyNotices) {
  onNode([](Node& node) {
    node.awaitReady();
    node.until("links that have settled", [&] {
      constexpr uint8_t kUp = 6;  // IF_OPER_UP, reported some time after the link is up
      for (auto& link : node.kernel->links()) {
        if (!link.loopback() && link.operState != kUp) return false;
      }
      return true;
    });
    while (!node.kernelIsQuiet()) {
    }
    // Not of links: their state settles when the kernel likes.
    auto versions = [&] {
      auto& store = node.store;
      auto status = KJ_ASSERT_NONNULL(store.tryGet<rpc::NetworkStatusSpec>("status"));
      auto address = KJ_ASSERT_NONNULL(store.tryGet<rpc::AddressStatusSpec>("eth0/10.5.0.2/24"));
      return status.version() * 100 + address.version();
    };
    auto before = versions();
    for (unsigned i = 0; i < 3; ++i) {
      node.kill();
      node.start();
      node.awaitReady();
      EXPECT_TRUE(node.kernelIsQuiet());
    }
    EXPECT_TRUE(node.hasDefault());
    // It is alive: a change is followed.
    node.putRoute("10.5.0.254");
    node.until("the new gateway", [&] { return node.applied(4); });
    EXPECT_EQ(versions(), before + 100);
  });
}

// Catches: a networkd that stops repairing, or never comes back, when machined is away for a
// moment.
TEST(Networkd, GoesOnWhileMachinedIsAway) {
  onNode([](Node& node) {
    node.machinedGoesAway();
    netlink::change(*node.kernel, netlink::DeleteAddress{
                                      {.link = node.eth0,
                                       .prefix = KJ_ASSERT_NONNULL(Prefix::parse("10.5.0.2/24"))}});
    node.until("the repair", [&] { return node.has("10.5.0.2/24") && node.hasDefault(); });
    node.serve();
    node.putAddress("10.5.0.3/24");
    node.until("the new address", [&] { return node.applied(4); });
    EXPECT_TRUE(node.has("10.5.0.3/24"));
    EXPECT_FALSE(node.has("10.5.0.2/24"));
  });
}

// Catches: settings of a driver that networkd may not make, read or report under its own uid; a
// problem of the driver that is lost.
TEST(Networkd, SetsTheDriverOfALink) {
  onNode([](Node& node) {
    node.put<rpc::EthernetSpecSpec>("eth0", [](rpc::EthernetSpecSpec::Builder spec) {
      auto feature = spec.initFeatures(1)[0];
      feature.setKey("tx-scatter-gather");
      feature.setValue(false);
      spec.setSetsWakeOnLan(true);
      spec.initWakeOnLan(1).set(0, "magic");
    });
    auto reported = [&](kj::StringPtr text) {
      KJ_IF_MAYBE (status, node.store.tryGet<rpc::EthernetStatusSpec>("eth0")) {
        for (auto feature : status->getFeatures()) {
          if (feature == text) return status->getSpecVersion() == 1;
        }
      }
      return false;
    };
    node.until("the feature to be off", [&] { return reported("tx-scatter-gather: off"); });
    auto status = KJ_ASSERT_NONNULL(node.store.tryGet<rpc::EthernetStatusSpec>("eth0"));
    ASSERT_EQ(status.getProblems().size(), 1u);
    EXPECT_STREQ(status.getProblems()[0].cStr(), "wakeOnLan: the driver of the link has none");
  });
}

}  // namespace
}  // namespace talos
