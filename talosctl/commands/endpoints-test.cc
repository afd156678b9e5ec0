// The choice among several endpoints, on a clock that the test owns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/net/dns-resolver.h"
#include "common/testing/own-network.h"
#include "common/testing/test-namespace.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Endpoints = ClusterTest;

// The order is random: so often that each comes first, but for one run of the tests in 4096.
constexpr int kOften = 12;

// Catches: one that is silent costing its whole share, or the whole timeout.
TEST_F(Endpoints, OneThatIsSilentCostsSomeSeconds) {
  auto silent = listenTcp("127.0.0.5", c.port);  // nobody accepts
  for (int i = 0; i < kOften; ++i) {
    auto begin = c.clock.now();
    EXPECT_EQ(c.run({"-e", "127.0.0.5,127.0.0.2", "-n", "10.0.0.2", "memory"}), 0) << err();
    EXPECT_LE(c.clock.now() - begin, 2 * kj::SECONDS);
  }
}

// Catches: one whose machine has stopped while its kernel still answers, taken for one that works.
TEST_F(Endpoints, OneThatConnectsAndSaysNothingIsNotTaken) {
  auto mute = pki::issue(c.authority.certificate, c.authority.key,
                         {.addresses = kj::arr(kj::str("127.0.0.6")), .client = false});
  TlsEndpoint tls({kj::str(c.authority.certificate), kj::mv(mute.certificate), kj::mv(mute.key)});
  auto serving =
      serveTls(c.test.deps.lowLevel, c.test.deps.timer, listenTcp("127.0.0.6", c.port), tls,
               [](const Peer&) {
                 return SessionParams{.bootstrap =
                                          kj::Promise<capnp::Capability::Client>(kj::NEVER_DONE)};
               })
          .eagerlyEvaluate(nullptr);
  for (int i = 0; i < kOften; ++i) {
    auto begin = c.clock.now();
    EXPECT_EQ(c.run({"-e", "127.0.0.6,127.0.0.2", "-n", "10.0.0.2", "memory"}), 0) << err();
    EXPECT_LE(c.clock.now() - begin, 2 * kj::SECONDS);
  }
  EXPECT_EQ(c.run({"-e", "127.0.0.6,127.0.0.3", "-n", "10.0.0.2", "memory"}), 1);
  EXPECT_THAT(err(), AllOf(HasSubstr("endpoint 127.0.0.6: no answer within"),
                           HasSubstr("endpoint 127.0.0.3: "), HasSubstr("refused")));
}

// Catches: an endpoint that is given up long before the time that the user or the help names, and
// a command with ten minutes for its work that spends them on a connection.
TEST_F(Endpoints, AConnectionHasTheTimeoutThatIsNamed) {
  auto silent = listenTcp("127.0.0.5", c.port);  // nobody accepts
  auto took = [&](std::initializer_list<kj::StringPtr> words) {
    auto begin = c.clock.now();
    EXPECT_EQ(c.run(words), 1) << out();
    return (c.clock.now() - begin) / kj::SECONDS;
  };
  EXPECT_EQ(took({"-e", "127.0.0.5", "-n", "10.0.0.2", "memory"}), 30);
  EXPECT_THAT(err(), HasSubstr("cannot connect to endpoint 127.0.0.5: no answer within 30s"));
  EXPECT_EQ(took({"-e", "127.0.0.5", "-n", "10.0.0.2", "memory", "--timeout", "45s"}), 45);
  EXPECT_THAT(err(), HasSubstr("no answer within 45s"));
  EXPECT_EQ(took({"-e", "127.0.0.5", "-n", "10.0.0.2", "bootstrap"}), 30);
  EXPECT_THAT(err(), HasSubstr("no answer within 30s"));
}

// Catches: one address of a name that connects, says nothing, and has all of the time of the
// others.
TEST(Endpoint, OneSilentAddressOfANameLeavesTimeForTheNext) {
  onThread([] {
    OwnNetwork network;  // with ::1, whatever the host has
    TestCluster c;
    c.nodes.insert(kj::str("10.0.0.2"), FakeNode());
    constexpr auto kName = "node.localhost"_kj;
    auto addresses = resolve(c.deps->port, c.test.deps.timer, kName).wait(c.test.io.waitScope);
    ASSERT_EQ(addresses.size(), 2u);
    auto leaf = pki::issue(c.authority.certificate, c.authority.key,
                           {.dnsNames = kj::arr(kj::str(kName)), .client = false});
    TlsEndpoint tls({kj::str(c.authority.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)});
    c.deps->apiPort = c.port + 1;
    auto serve = [&](kj::StringPtr address, capnp::Capability::Client said) {
      return serveTls(c.test.deps.lowLevel, c.test.deps.timer, listenTcp(address, c.deps->apiPort),
                      tls, [said](const Peer&) mutable { return SessionParams{.bootstrap = said}; })
          .eagerlyEvaluate(nullptr);
    };
    auto mute = serve(addresses[0], kj::Promise<capnp::Capability::Client>(kj::NEVER_DONE));
    auto well = serve(addresses[1], kj::heap<FakeClusterServer>(c.nodes));
    auto begin = c.clock.now();
    EXPECT_EQ(c.run({"-e", kName, "-n", "10.0.0.2", "memory"}), 0)
        << c.test.console.takeErr().cStr();
    EXPECT_LE(c.clock.now() - begin, 5 * kj::SECONDS);
    mute = kj::Promise<void>(kj::READY_NOW), well = kj::Promise<void>(kj::READY_NOW);
    mute = serve(addresses[0], kj::Promise<capnp::Capability::Client>(kj::NEVER_DONE));
    EXPECT_EQ(c.run({"-e", kName, "-n", "10.0.0.2", "memory"}), 1);
    EXPECT_THAT(kj::str(c.test.console.takeErr()).cStr(),
                AllOf(HasSubstr(kj::str(addresses[0], ": no answer within 5s").cStr()),
                      HasSubstr("refused")));
  });
}

// Answers until it is mute, as a forwarder does whose machine has lost its power.
class Forwarded final : public rpc::Cluster::Server {
 public:
  struct State {
    bool used = false, mute = false;
  };
  Forwarded(kj::TreeMap<kj::String, FakeNode>& nodes, State& state)
      : behind(kj::heap<FakeClusterServer>(nodes)), state(state) {}
  kj::Promise<void> node(NodeContext context) override {
    state.used = true;
    return state.mute ? kj::Promise<void>(kj::NEVER_DONE) : behind->node(kj::mv(context));
  }

 private:
  kj::Own<FakeClusterServer> behind;
  State& state;
};

// Catches: a command that runs for days and stays with the endpoint that it once took, although
// that says nothing any more and another one would answer.
TEST_F(Endpoints, OneThatFallsSilentIsReplaced) {
  auto leaf = pki::issue(
      c.authority.certificate, c.authority.key,
      {.addresses = kj::arr(kj::str("127.0.0.6"), kj::str("127.0.0.7")), .client = false});
  TlsEndpoint tls({kj::str(c.authority.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)});
  Forwarded::State six, seven;
  auto serve = [&](kj::StringPtr address, Forwarded::State& state) {
    auto begin = [this, &state](const Peer&) {
      return SessionParams{.bootstrap = kj::heap<Forwarded>(c.nodes, state)};
    };
    return serveTls(c.test.deps.lowLevel, c.test.deps.timer, listenTcp(address, c.port), tls,
                    kj::mv(begin))
        .eagerlyEvaluate(nullptr);
  };
  auto servingSix = serve("127.0.0.6", six), servingSeven = serve("127.0.0.7", seven);
  auto interrupt = kj::newPromiseAndFulfiller<void>();
  auto series = c.start({"-e", "127.0.0.6,127.0.0.7", "-n", "10.0.0.2", "--timeout", "10s", "etcd",
                         "snapshot", c.folder, "--every", "10s"},
                        kj::mv(interrupt.promise));
  auto saved = [&] {
    for (int round = 0; round < 60; ++round) {
      c.settle();
      if (series.poll(c.test.io.waitScope)) return false;
      if (c.test.console.takeOut().size() > 0) return true;
      KJ_IF_MAYBE (next, c.clock.nextEvent()) c.clock.advanceTo(kj::max(*next, c.clock.now()));
    }
    return false;
  };
  EXPECT_TRUE(saved()) << err();
  ASSERT_NE(six.used, seven.used);
  (six.used ? six : seven).mute = true;
  EXPECT_TRUE(saved()) << err();
  interrupt.fulfiller->fulfill();
  EXPECT_EQ(c.finish(kj::mv(series)), 0) << err();
}

// Catches: a command that waits for 25 minutes for an answer of a node that has disappeared, and
// one that gives up a node which is only busy.
TEST_F(Endpoints, ALongCallEndsWhenItsNodeFallsSilent) {
  auto& one = node("10.0.0.2");
  one.upgrades.requestsHang = one.pullsHang = true;
  using Line = std::initializer_list<kj::StringPtr>;
  for (Line line :
       {Line{"-n", "10.0.0.2", "upgrade", "-i", "x/i:v2"},
        Line{"-n", "10.0.0.2", "upgrade-cluster", "-i", "x/i:v2", "--kubernetes=false", "--yes"},
        Line{"-n", "10.0.0.2", "bootstrap"}, Line{"-n", "10.0.0.2", "image", "pull", "x/i:v2"}}) {
    auto run = c.start(kj::arrayPtr(line.begin(), line.size()));
    c.settle();
    one.hangs = true;
    auto begin = c.clock.now();
    EXPECT_EQ(c.finish(kj::mv(run)), 1);
    EXPECT_LE(c.clock.now() - begin, 45 * kj::SECONDS);
    EXPECT_THAT(err(), HasSubstr("no answer for 39s"));
    one.hangs = false;
  }
  // Two of three questions are not answered.
  auto run = c.start({"-n", "10.0.0.2", "image", "pull", "x/i:v2", "--timeout", "2m"});
  auto begin = c.clock.now();
  for (int round = 0; round < 300 && !run.poll(c.test.io.waitScope); ++round) {
    c.settle();
    one.hangs = one.calls % 3 != 2;
    KJ_IF_MAYBE (next, c.clock.nextEvent()) c.clock.advanceTo(kj::max(*next, c.clock.now()));
  }
  EXPECT_EQ(c.finish(kj::mv(run)), 1);
  EXPECT_EQ(c.clock.now() - begin, 2 * kj::MINUTES);
  EXPECT_THAT(err(), HasSubstr("no answer within 2m"));
}

// Catches: attempts that are waited for although the first one has long succeeded.
TEST_F(Endpoints, OneThatAnswersIsTakenAtOnce) {
  for (int i = 0; i < kOften; ++i) {
    auto begin = c.clock.now();
    EXPECT_EQ(c.run({"-e", "127.0.0.2,127.0.0.3", "-n", "10.0.0.2", "memory"}), 0) << err();
    EXPECT_EQ(c.clock.now(), begin);
  }
}

}  // namespace
}  // namespace talos::talosctl
