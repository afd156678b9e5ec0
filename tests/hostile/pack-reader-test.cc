// A node under attack by a client with the role os:reader: real process 1, brain and apid, and
// every call that a reader may make, at once and without end.
#include "tests/hostile/by-hand.h"
#include "tests/hostile/running-node.h"

namespace talos::hostile {
namespace {

// Two connections for each kind of call, and many for the kinds that use memory.
constexpr unsigned kKinds = 7, kCallers = 2 * kKinds, kHoarders = 48;
// The sum of apid's own limits, below its limit of memory (apid/gate/gate.h).
constexpr size_t kMostGrowthKiB = 224u << 10;
// Likewise for the brain: the sum of its limits, and memory that an allocator keeps.
constexpr size_t kMostBrainGrowthKiB = 160u << 10;

void askTheTime(rpc::Node::Client& node, Calls& calls) {
  auto machine = node.machineRequest().send().getMachine();
  for (unsigned i = 0; i < 64; ++i) {
    auto request = machine.timeRequest();
    request.setServer(i % 2 == 0 ? kj::str("10.9.9.", i) : kj::str("server-", i, ".example"));
    calls.add(request);
  }
}

void readTheKernelsLog(rpc::Node::Client& node, Calls& calls) {
  auto logs = node.logsRequest().send().getLogs();
  for (unsigned i = 0; i < 64; ++i) {
    auto request = logs.kernelRequest();
    request.setFollow(true);
    request.setSink(kj::heap<Stuck<rpc::LogSink>>());
    calls.add(request);
  }
}

void followEverything(rpc::Node::Client& node, Calls& calls) {
  for (unsigned i = 0; i < 64; ++i) {
    auto log = node.logsRequest().send().getLogs().readRequest();
    log.setId("machined");
    log.setFollow(true);
    log.setSink(kj::heap<Stuck<rpc::LogSink>>());
    calls.add(log);
    auto events = node.eventsRequest().send().getEvents().watchRequest();
    events.initTail().setLast(-1);
    events.setSink(kj::heap<Stuck<rpc::EventSink>>());
    calls.add(events);
    auto watch = node.resourcesRequest().send().getResources().watchRequest();
    watch.initKind().setType("Services");
    watch.setSink(kj::heap<Stuck<rpc::ResourceSink>>());
    calls.add(watch);
  }
}

void nameManyNodes(rpc::Cluster::Client& cluster, Calls& calls) {
  for (unsigned i = 0; i < 300; ++i) {
    auto request = cluster.nodeRequest();
    request.setAddress(kj::str("10.66.", i / 200, ".", 1 + i % 200));
    calls.add(request.send().getNode().machineRequest().send().getMachine().versionRequest());
  }
}

void hang(rpc::Node::Client& node, Calls& calls) {
  for (unsigned i = 0; i < 16; ++i) {
    list(node, calls, kHanging);
    calls.add(node.machineRequest().send().getMachine().mountsRequest());
    calls.add(node.machineRequest().send().getMachine().processesRequest());
  }
}

void callAll(unsigned kind, rpc::Cluster::Client& cluster, Calls& calls) {
  rpc::Node::Client node = cluster.nodeRequest().send().getNode();
  switch (kind) {
    case 0:
      return askTheTime(node, calls);
    case 1:
      for (unsigned i = 0; i < 32; ++i) measure(node, calls, 256, "/");
      return measure(node, calls, 500'000, "/");
    case 2:
      for (unsigned i = 0; i < 64; ++i) list(node, calls, "/");
      return;
    case 3:
      return readTheKernelsLog(node, calls);
    case 4:
      return followEverything(node, calls);
    case 5:
      return nameManyNodes(cluster, calls);
    default:
      return hang(node, calls);
  }
}

// One connection after the other: calls that are left open for a while, and then dropped.
kj::Promise<void> callWithoutEnd(Evil evil, unsigned kind) {
  for (;;) {
    co_await kj::evalNow([&]() -> kj::Promise<void> {
      auto connection = co_await evil.connect();
      auto cluster = connection->bootstrap().castAs<rpc::Cluster>();
      Calls calls{evil.tally, {}};
      callAll(kind, cluster, calls);
      co_await kj::joinPromises(calls.all.releaseAsArray())
          .exclusiveJoin(evil.timer.afterDelay(1 * kj::SECONDS));
    }).catch_([&](kj::Exception&&) { ++evil.tally.refused; });
    co_await evil.timer.afterDelay(20 * kj::MILLISECONDS);
  }
}

// Calls as large as a message may be, all of them open.
kj::Promise<void> hoardCalls(Evil evil) {
  auto connection = co_await evil.connect();
  auto cluster = connection->bootstrap().castAs<rpc::Cluster>();
  rpc::Node::Client node = cluster.nodeRequest().send().getNode();
  auto path = kj::heapString(7u << 20);
  memset(path.begin(), 'a', path.size());
  Calls calls{evil.tally, {}};
  for (unsigned i = 0; i < 5; ++i) measure(node, calls, 1, path);
  co_await connection->onDisconnect().exclusiveJoin(evil.timer.afterDelay(5 * kj::SECONDS));
}

kj::Promise<kj::Own<kj::AsyncIoStream>> raw(Evil evil) {
  return rawStream(evil.io, evil.tls, "10.0.0.66", "127.0.0.1");
}

// A message as large as it may be, but for its last word.
kj::Promise<void> hoardBytes(Evil evil) {
  auto stream = co_await raw(evil);
  constexpr uint32_t kWords = (1u << 20) - 8;
  auto bytes = kj::heapArray<kj::byte>(8 * kWords);
  memset(bytes.begin(), 0, bytes.size());
  const uint32_t header[2] = {0, kWords};
  memcpy(bytes.begin(), header, sizeof header);
  ++evil.tally.attacks;
  co_await stream->write(bytes.begin(), bytes.size() - 8);
  kj::byte nothing;
  co_await stream->tryRead(&nothing, 1, 1)
      .exclusiveJoin(evil.timer.afterDelay(5 * kj::SECONDS).then([]() -> size_t { return 0; }));
}

// Makes calls with long answers, and reads none of the answers.
kj::Promise<void> hoardAnswers(Evil evil) {
  auto stream = co_await raw(evil);
  ByHand calls;
  constexpr uint16_t kNode = 0, kServices = 1, kList = 0;  // ordinals
  auto node =
      calls.call<rpc::Cluster::NodeParams>(0, capnp::typeId<rpc::Cluster>(), kNode, [](auto) {});
  auto services = calls.call<rpc::Node::ServicesParams>(node, capnp::typeId<rpc::Node>(), kServices,
                                                        [](auto) {});
  for (unsigned i = 0; i < 2000; ++i) {
    ++evil.tally.attacks;
    calls.call<rpc::Services::ListParams>(services, capnp::typeId<rpc::Services>(), kList,
                                          [](auto) {});
  }
  co_await stream->write(calls.bytes().begin(), calls.bytes().size());
  co_await evil.timer.afterDelay(5 * kj::SECONDS);
}

kj::Promise<void> hoard(Evil evil, unsigned number) {
  for (;;) {
    kj::Promise<void> (*const ways[])(Evil) = {hoardCalls, hoardBytes, hoardAnswers};
    co_await kj::evalNow([&]() { return ways[number % 3](evil); }).catch_([&](kj::Exception&&) {
      ++evil.tally.refused;
    });
    co_await evil.timer.afterDelay(200 * kj::MILLISECONDS);
  }
}

// Makes calls that a reader may not make; an answer ends this scenario.
kj::Promise<void> askForMore(Evil evil) {
  for (;;) {
    co_await kj::evalNow([&]() -> kj::Promise<void> {
      auto connection = co_await evil.connect();
      auto node = connection->bootstrap().castAs<rpc::Cluster>().nodeRequest().send().getNode();
      ++evil.tally.attacks;
      co_await node.machineRequest().send().getMachine().rebootRequest().send();
    }).catch_([&](kj::Exception&&) { ++evil.tally.refused; });
    co_await evil.timer.afterDelay(200 * kj::MILLISECONDS);
  }
}

kj::Promise<void> attack(kj::AsyncIoContext& io, const Credentials& credentials, Tally& tally) {
  TlsEndpoint tls(RunningNode::copyOf(credentials));
  Evil evil{io, tls, tally};
  kj::Vector<kj::Promise<void>> all;
  for (unsigned i = 0; i < kCallers; ++i) all.add(callWithoutEnd(evil, i % kKinds));
  for (unsigned i = 0; i < kHoarders; ++i) all.add(hoard(evil, i));
  all.add(askForMore(evil));
  co_await kj::joinPromises(all.releaseAsArray());
}

// Catches: a reader who takes a place, a thread or a slot that other clients need, or who makes
// apid or the brain grow; a reader who ends either of them.
TEST_F(Pack, Reader) {
  RunningNode node;
  Attacker attacker(*tally, [&](kj::AsyncIoContext& io) { return attack(io, node.evil, *tally); });
  Honest honest(*tally);
  TlsEndpoint reader(RunningNode::copyOf(node.honest));
  Looking looking{honest.wait(connectTls(*honest.io.lowLevelProvider, honest.timer, reader,
                                         "127.0.0.1", kApidPort, "127.0.0.1"))};
  auto pause = 20 * kj::MILLISECONDS;
  honest.add("services", pause, [&](unsigned) { return looking.services(); });
  honest.add("a list of files", pause, [&](unsigned) { return looking.files(); });
  honest.add("a log", pause, [&](unsigned) { return looking.log(); });
  honest.add("resources", pause, [&](unsigned) { return looking.resources(); });
  auto apid = node.apid(), brain = node.brain();
  auto before = residentKiB(brain);
  honest.run("reader", apid, kMostGrowthKiB);
  EXPECT_TRUE(attacker.alive()) << "it did not attack to the end";
  EXPECT_EQ(node.apid(), apid) << "apid ended";
  EXPECT_EQ(node.brain(), brain) << "the brain ended";
  auto most = peakKiB(brain);
  printf("{\"brainBeforeKiB\":%zu,\"brainMostKiB\":%zu}\n", before, most);
  EXPECT_LT(most, before + kMostBrainGrowthKiB);
}

}  // namespace
}  // namespace talos::hostile
