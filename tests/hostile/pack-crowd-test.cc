// A node with files that a pod can put on it, or with daemons that have little memory, and a reader
// who makes the calls that use the most of this, at once and without end.
#include "tests/hostile/running-node.h"

namespace talos::hostile {
namespace {

constexpr kj::StringPtr kCrowded = "/var/crowded"_kj;
constexpr unsigned kEntries = 300'000, kConnections = 2;
// All calls that one client may have, each with the names that a walk holds, several times over.
// The names of the whole directory are 20 MiB.
constexpr size_t kMostBrainGrowthKiB = 48u << 10;
constexpr unsigned kCallsAtOnce = 2000;
// Most growth of networkd, whose limit is 128 MiB.
constexpr size_t kMostDaemonGrowthKiB = 32u << 10;
constexpr size_t kMostApidGrowthKiB = 224u << 10;

// One connection after the other, with calls that are dropped after a while.
kj::Promise<void> callWithoutEnd(Evil evil, void (*call)(rpc::Node::Client&, Calls&)) {
  for (;;) {
    co_await kj::evalNow([&]() -> kj::Promise<void> {
      auto connection = co_await evil.connect();
      auto cluster = connection->bootstrap().castAs<rpc::Cluster>();
      rpc::Node::Client node = cluster.nodeRequest().send().getNode();
      Calls calls{evil.tally, {}};
      call(node, calls);
      co_await kj::joinPromises(calls.all.releaseAsArray())
          .exclusiveJoin(evil.timer.afterDelay(1 * kj::SECONDS));
    }).catch_([&](kj::Exception&&) { ++evil.tally.refused; });
    co_await evil.timer.afterDelay(20 * kj::MILLISECONDS);
  }
}

kj::Promise<void> attack(kj::AsyncIoContext& io, const Credentials& credentials, Tally& tally,
                         void (*call)(rpc::Node::Client&, Calls&)) {
  TlsEndpoint tls(RunningNode::copyOf(credentials));
  kj::Vector<kj::Promise<void>> all;
  for (unsigned i = 0; i < kConnections; ++i) {
    all.add(callWithoutEnd(Evil{io, tls, tally}, call));
  }
  co_await kj::joinPromises(all.releaseAsArray());
}

void walkTheCrowd(rpc::Node::Client& node, Calls& calls) {
  for (unsigned i = 0; i < 12; ++i) {
    list(node, calls, kCrowded);
    measure(node, calls, 1, kCrowded);
  }
}

void askTheDaemons(rpc::Node::Client& node, Calls& calls) {
  auto network = node.networkRequest().send().getNetwork();
  auto etcd = node.etcdRequest().send().getEtcd();
  auto kubernetes = node.kubernetesRequest().send().getKubernetes();
  for (unsigned i = 0; i < kCallsAtOnce / 4; ++i) {
    calls.add(network.routesRequest());
    calls.add(etcd.membersRequest());
    calls.add(kubernetes.aggregationRequest());
    calls.add(kubernetes.surveyRequest());
  }
}

// The honest calls of a scenario, and the state of the programs beside them.
struct Scenario {
  RunningNode& node;
  Tally& tally;
  Honest honest{tally};
  TlsEndpoint reader{RunningNode::copyOf(node.honest)};
  Looking looking{honest.wait(connectTls(*honest.io.lowLevelProvider, honest.timer, reader,
                                         "127.0.0.1", kApidPort, "127.0.0.1"))};

  void run(kj::StringPtr name, Attacker& attacker, const char* program, size_t mostGrowthKiB) {
    auto pause = 20 * kj::MILLISECONDS;
    honest.add("services", pause, [&](unsigned) { return looking.services(); });
    honest.add("a list of files", pause, [&](unsigned) { return looking.files(); });
    honest.add("routes", pause, [&](unsigned) { return looking.routes(); });
    auto apid = node.apid(), tested = node.process(program);
    auto before = residentKiB(tested);
    honest.run(name, apid, kMostApidGrowthKiB);
    EXPECT_TRUE(attacker.alive()) << "it did not attack to the end";
    EXPECT_EQ(node.apid(), apid) << "apid ended";
    ASSERT_EQ(node.process(program), tested) << program << " ended";
    auto most = peakKiB(tested);
    printf("{\"program\":\"%s\",\"beforeKiB\":%zu,\"mostKiB\":%zu}\n", program, before, most);
    EXPECT_LT(most, before + mostGrowthKiB);
  }
};

// Catches: a directory that a pod has filled, read whole into the brain by each call of a reader; a
// reader whose walks take the threads that others need.
TEST_F(Pack, CrowdedDirectory) {
  RunningNode node;
  node.crowd(kCrowded, kEntries);
  Attacker attacker(
      *tally, [&](kj::AsyncIoContext& io) { return attack(io, node.evil, *tally, walkTheCrowd); });
  Scenario{node, *tally}.run("crowded-directory", attacker, "machined", kMostBrainGrowthKiB);
}

// Catches: a reader with 2 000 calls to a daemon that has little memory, which it ends, or whose
// other callers go without.
TEST_F(Pack, Daemons) {
  RunningNode node;
  Attacker attacker(
      *tally, [&](kj::AsyncIoContext& io) { return attack(io, node.evil, *tally, askTheDaemons); });
  Scenario{node, *tally}.run("daemons", attacker, "networkd", kMostDaemonGrowthKiB);
}

}  // namespace
}  // namespace talos::hostile
