// networkd as the process that a node runs: its own uid, two capabilities, an inherited socket, a
// store at the other end of a socket, and the real kernel of a network namespace that the test
// makes for itself.
#include "tests/network/node.h"

namespace talos {
namespace {

template <typename F>
void onNode(F&& body) {
  kj::Maybe<kj::Exception> failure;
  std::thread([&] {
    failure = kj::runCatchingExceptions([&] {
      KJ_SYSCALL(unshare(CLONE_NEWNET), "these tests need root");
      Node node;
      node.putLink();
      node.putAddress("10.5.0.2/24");
      node.putRoute("10.5.0.1");
      node.serve();
      node.start();
      node.until("one address with default route", [&] { return node.applied(3); });
      body(node);
    });
  }).join();
  KJ_IF_MAYBE (e, failure) ADD_FAILURE() << kj::str(*e).cStr();
}

// Catches: what works as root and not as networkd's uid; reports and API that nobody can read.
TEST(Networkd, configuresAndReportsUnderItsOwnUid) {
  onNode([](Node& node) {
    EXPECT_TRUE(node.has("10.5.0.2/24"));
    EXPECT_TRUE(node.hasDefault());
    auto link =
        KJ_ASSERT_NONNULL(node.spec<rpc::LinkStatusSpec>("LinkStatuses.net.talos.dev", "eth0"));
    EXPECT_STREQ(link.getKind().cStr(), "veth");
    EXPECT_TRUE(node.store.tryGet("", "AddressStatuses.net.talos.dev", "eth0/10.5.0.2/24") !=
                nullptr);
    EXPECT_TRUE(node.store.tryGet("", "RouteStatuses.net.talos.dev", "10.5.0.1/") != nullptr);
    auto address = KJ_ASSERT_NONNULL(
        node.spec<rpc::NodeAddressSpec>("NodeAddresses.net.talos.dev", "default"));
    EXPECT_STREQ(address.getAddresses()[0].cStr(), "10.5.0.2");

    node.awaitReady();
    auto network = node.dial().networkRequest().send().wait(node.io.waitScope).getNetwork();
    auto interfaces = network.interfacesRequest().send().wait(node.io.waitScope);
    EXPECT_EQ(interfaces.getInterfaces().size(), 3u);

    node.put<rpc::ResolverSpecSpec>(
        "ResolverSpecs.net.talos.dev", "resolvers",
        [](rpc::ResolverSpecSpec::Builder spec) { spec.initDnsServers(1).set(0, "10.5.0.1"); });
    node.putAddress("10.5.0.3/24");
    node.until("the new address", [&] { return node.applied(4); });
    EXPECT_STREQ(readFile(node.path("state/resolv.conf")).cStr(), "nameserver 10.5.0.1\n");
  });
}

// Catches: a restart that takes down what is right, even for a moment, or that writes what is
// stored already.
TEST(Networkd, isKilledAndNobodyNotices) {
  onNode([](Node& node) {
    node.awaitReady();
    node.until("links that have settled", [&] {
      constexpr uint8_t kUp = 6;  // IF_OPER_UP, told some time after the link is up
      for (auto& link : node.kernel->links()) {
        if (!link.loopback() && link.operState != kUp) return false;
      }
      return true;
    });
    while (!node.kernelIsQuiet()) {
    }
    // Not of links: their state settles when the kernel likes.
    auto versions = [&] {
      auto of = [&](kj::StringPtr type, kj::StringPtr id) {
        return node.store.get("", type, id).getMetadata().getVersion();
      };
      return of(kStatus, "status") * 100 + of("AddressStatuses.net.talos.dev", "eth0/10.5.0.2/24");
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
TEST(Networkd, goesOnWhileMachinedIsAway) {
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

}  // namespace
}  // namespace talos
