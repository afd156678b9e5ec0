// The cache of connections, with a virtual clock and fake connections.
#include "apid/gate/peer-connections.h"

#include <capnp/rpc-twoparty.h>
#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::apid {
namespace {

struct PeerTestbed {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  unsigned dialled = 0, open = 0;
  bool refuse = false, dead = false;
  unsigned calls = 0, lostCalls = 0;        // lost: number of next calls that end their connection
  bool largeNodes = false;                  // answers with a Machine have a megabyte
  unsigned largeAnswers = 0;                // number of large answers in memory
  bool unavailable = false;                 // Calls fail, and the connection stays.
  kj::Maybe<kj::String> verificationError;  // for the next connection
  kj::String serial;                        // serial number of nodes' certificates
  kj::Vector<kj::String> names;             // in the certificate of the next connection
  kj::Maybe<kj::Promise<void>> gate;
  kj::String caller = kj::str("someone");
  kj::Vector<kj::String> asked;                          // roles that a remote received
  kj::Vector<kj::Own<kj::PromiseFulfiller<void>>> ends;  // end the connections

  void pass(kj::Duration duration) {
    timer.advanceTo(timer.now() + duration);
    scope.poll();
  }
};

class RemoteMachine final : public rpc::Machine::Server {
 public:
  explicit RemoteMachine(PeerTestbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> version(VersionContext context) override {
    called();
    context.getResults().setTag("remote");
    return kj::READY_NOW;
  }
  kj::Promise<void> reboot(RebootContext) override {
    called();
    return kj::READY_NOW;
  }
  kj::Promise<void> memory(MemoryContext context) override { return kj::NEVER_DONE; }
  kj::Promise<void> kubeconfig(KubeconfigContext context) override {
    context.getResults().initKubeconfig(1u << 20);
    return kj::READY_NOW;
  }

 private:
  PeerTestbed& bed;

  // Ends the connection if the test says so.
  void called() {
    ++bed.calls;
    if (bed.lostCalls == 0 && !bed.unavailable) return;
    if (bed.lostCalls > 0) {
      --bed.lostCalls;
      bed.dead = true;
    }
    fail(ErrorKind::kUnavailable, "10.0.0.3:50000: the connection was lost");
  }
};
// Shows, as a part of an answer, that the answer is in memory.
class Witness final : public rpc::Cluster::Server {
 public:
  explicit Witness(unsigned& answers) : answers(answers) { ++answers; }
  ~Witness() noexcept(false) { --answers; }

 private:
  unsigned& answers;
};
class RemoteNode final : public rpc::Node::Server {
 public:
  explicit RemoteNode(PeerTestbed& bed) : bed(bed) {}

 protected:
  // Adds a megabyte, if the test says so, in a field that this node's schema does not know.
  DispatchCallResult dispatchCall(
      uint64_t interface, uint16_t method,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    if (!bed.largeNodes) return rpc::Node::Server::dispatchCall(interface, method, context);
    auto results = context.getResults().initAsAnyStruct(0, 3).getPointerSection();
    results[0].setAs<capnp::Capability>(kj::heap<RemoteMachine>(bed));
    results[1].initAs<capnp::Data>(1u << 20);
    results[2].setAs<capnp::Capability>(kj::heap<Witness>(bed.largeAnswers));
    return {kj::READY_NOW, false, true};
  }
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<RemoteMachine>(bed));
    return kj::READY_NOW;
  }

 private:
  PeerTestbed& bed;
};
class RemoteCluster final : public rpc::Cluster::Server {
 public:
  explicit RemoteCluster(PeerTestbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> node(NodeContext context) override {
    EXPECT_EQ(context.getParams().getAddress(), ""_kj);
    context.getResults().setNode(kj::heap<RemoteNode>(bed));
    return kj::READY_NOW;
  }
  kj::Promise<void> withRoles(WithRolesContext context) override {
    bed.asked.add(kj::strArray(context.getParams().getRoles(), ","));
    EXPECT_EQ(context.getParams().getCaller().getName(), bed.caller);
    EXPECT_EQ(context.getParams().getCaller().getAddress(), "10.0.0.99"_kj);
    context.getResults().setCluster(kj::heap<RemoteCluster>(bed));
    return kj::READY_NOW;
  }

 private:
  PeerTestbed& bed;
};

class FakeConnection final : public Connection {
 public:
  explicit FakeConnection(PeerTestbed& bed) : bed(bed) {
    ++bed.open;
    auto paf = kj::newPromiseAndFulfiller<void>();
    bed.ends.add(kj::mv(paf.fulfiller));
    end = kj::mv(paf.promise);
  }
  ~FakeConnection() noexcept(false) { --bed.open; }
  capnp::Capability::Client bootstrap() override { return kj::heap<RemoteCluster>(bed); }
  kj::Promise<void> onDisconnect() override { return kj::mv(end); }
  bool alive() const override { return !bed.dead; }

 private:
  PeerTestbed& bed;
  kj::Promise<void> end = nullptr;
};

struct PeerConnectionsTest : ::testing::Test {
  ~PeerConnectionsTest() noexcept override {}
  PeerTestbed bed;
  PeerConnections peers{bed.timer,
                        [this](const Ip& address) { return dial(address.toString()); },
                        {.targets = 3, .perClient = 3, .unverified = 3, .idle = 60 * kj::SECONDS}};

  kj::Promise<Remote> dial(kj::String address) {
    ++bed.dialled;
    KJ_IF_MAYBE (gate, bed.gate) {
      auto waiting = kj::mv(*gate);
      bed.gate = nullptr;
      co_await waiting;
    }
    if (bed.refuse) fail(ErrorKind::kUnavailable, kj::str(address, ":50000: Connection refused"));
    bed.dead = false;
    ShownCertificate shown;
    shown.verificationError = kj::mv(bed.verificationError);
    for (auto& name : bed.names) shown.names.add(kj::str(name));
    co_return Remote(kj::heap<FakeConnection>(bed), kj::mv(shown), kj::str(bed.serial));
  }
  rpc::Node::Client node(kj::StringPtr address) {
    return peers.node(Ip::require(address), caller({"os:reader"})).wait(bed.scope);
  }
  static PeerConnections::Client caller(std::initializer_list<kj::StringPtr> roles,
                                        kj::StringPtr name = "someone") {
    kj::Vector<kj::String> list;
    for (auto role : roles) list.add(kj::str(role));
    return {.name = kj::str(name), .address = kj::str("10.0.0.99"), .roles = list.releaseAsArray()};
  }
  void use(rpc::Node::Client node) {
    auto tag = node.machineRequest().send().getMachine().versionRequest().send().wait(bed.scope);
    EXPECT_EQ(tag.getTag(), "remote"_kj);
  }
};

// Catches: a handshake for every call; the roles of one caller given to the next.
TEST_F(PeerConnectionsTest, OneConnectionForAllCallers) {
  use(node("10.0.0.3"));
  auto admin = peers.node(Ip::require("10.0.0.3"), caller({"os:admin", "os:x"}));
  use(admin.wait(bed.scope));
  EXPECT_EQ(bed.dialled, 1u);
  ASSERT_EQ(bed.asked.size(), 2u);
  EXPECT_EQ(bed.asked[0], "os:reader"_kj);
  EXPECT_EQ(bed.asked[1], "os:admin,os:x"_kj);
}

// Catches: two dials for simultaneous callers.
TEST_F(PeerConnectionsTest, CallersShareOneDial) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  bed.gate = kj::mv(paf.promise);
  auto first = peers.node(Ip::require("10.0.0.3"), caller({}));
  auto second = peers.node(Ip::require("10.0.0.3"), caller({}));
  EXPECT_FALSE(first.poll(bed.scope));
  paf.fulfiller->fulfill();
  first.wait(bed.scope);
  second.wait(bed.scope);
  EXPECT_EQ(bed.dialled, 1u);
}

// Catches: a refused dial that is remembered; an error without the node's name.
TEST_F(PeerConnectionsTest, FailedDialIsTriedAgain) {
  bed.refuse = true;
  auto failure = kj::runCatchingExceptions([&] { node("10.0.0.3"); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)), "10.0.0.3:50000: Connection refused"_kj);
  bed.refuse = false;
  use(node("10.0.0.3"));
}

TEST_F(PeerConnectionsTest, LostConnectionIsDialledAgain) {
  use(node("10.0.0.3"));
  bed.dead = true;
  use(node("10.0.0.3"));
  EXPECT_EQ(bed.dialled, 2u);
  EXPECT_EQ(bed.open, 1u);
}

// Catches: connections that stay for ever; a connection that is closed while it is in use.
TEST_F(PeerConnectionsTest, IdleConnectionsAreClosed) {
  {
    auto machine = node("10.0.0.3").machineRequest().send().getMachine();
    machine.versionRequest().send().wait(bed.scope);
    bed.pass(1000 * kj::SECONDS);
    EXPECT_EQ(bed.open, 1u);  // a capability obtained over it is held
    auto call = machine.memoryRequest().send();
    machine = nullptr;
    bed.pass(1000 * kj::SECONDS);
    EXPECT_EQ(bed.open, 1u);  // a call is in progress
  }
  bed.scope.poll();
  bed.pass(59 * kj::SECONDS);
  EXPECT_EQ(bed.open, 1u);
  use(node("10.0.0.3"));  // used again: the time starts over
  bed.pass(59 * kj::SECONDS);
  EXPECT_EQ(bed.open, 1u);
  bed.pass(2 * kj::SECONDS);
  EXPECT_EQ(bed.open, 0u);
  use(node("10.0.0.3"));
  EXPECT_EQ(bed.dialled, 2u);
}

// Catches: a node that stays unverified after it got its certificate; a dial for each call to a
// node without one.
TEST_F(PeerConnectionsTest, AnUnverifiedPeerIsDialledAnewSoon) {
  bed.verificationError = kj::str("self-signed certificate");
  auto tag = [&] {
    auto request = node("10.0.0.3").machineRequest().send().getMachine().versionRequest();
    return kj::str(request.send().wait(bed.scope).getTag());
  };
  EXPECT_EQ(tag(), "remote (not authenticated)");
  EXPECT_EQ(tag(), "remote (not authenticated)");
  EXPECT_EQ(bed.dialled, 1u);
  bed.pass(200 * kj::MILLISECONDS);
  EXPECT_EQ(tag(), "remote");
  EXPECT_EQ(bed.dialled, 2u);
  bed.pass(30 * kj::SECONDS);
  EXPECT_EQ(tag(), "remote");
  EXPECT_EQ(bed.dialled, 2u);
  EXPECT_EQ(bed.open, 1u);
}

// Catches: a caller that makes this node connect to any number of addresses.
TEST_F(PeerConnectionsTest, NumberOfTargetsIsBounded) {
  use(node("10.0.0.1"));
  bed.pass(1 * kj::SECONDS);
  auto busy = node("10.0.0.2");
  use(busy);
  bed.pass(1 * kj::SECONDS);
  use(node("10.0.0.3"));
  use(node("10.0.0.4"));  // 10.0.0.1 was unused longest
  EXPECT_EQ(bed.open, 3u);
  EXPECT_EQ(bed.dialled, 4u);
  use(busy);
  EXPECT_EQ(bed.dialled, 4u);
  auto third = node("10.0.0.3"), fourth = node("10.0.0.4");
  EXPECT_EQ(bed.dialled, 4u);
  auto failure = kj::runCatchingExceptions([&] { node("10.0.0.5"); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kResourceExhausted);
}

// Catches: a reader that holds all connections of this node, so that no other client's call is
// forwarded.
TEST_F(PeerConnectionsTest, OneClientHasAPartOfTheTargets) {
  PeerConnections small(bed.timer, [this](const Ip& address) { return dial(address.toString()); },
                        {.targets = 3, .perClient = 2, .unverified = 3, .idle = 60 * kj::SECONDS});
  auto get = [&](kj::StringPtr address, kj::StringPtr name) {
    bed.caller = kj::str(name);
    return small.node(Ip::require(address), caller({}, name)).wait(bed.scope);
  };
  kj::Maybe<rpc::Node::Client> first = get("10.0.0.1", "greedy");
  auto again = get("10.0.0.1", "greedy"), second = get("10.0.0.2", "greedy");
  auto failure = kj::runCatchingExceptions([&] { get("10.0.0.3", "greedy"); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)),
            "greedy uses connections to 2 other nodes, which is the limit for one client"_kj);
  EXPECT_EQ(bed.dialled, 2u) << "it was dialled all the same";
  first = nullptr;  // two leases of one connection count once
  bed.scope.poll();
  EXPECT_TRUE(kj::runCatchingExceptions([&] { get("10.0.0.3", "greedy"); }) != nullptr);
  EXPECT_TRUE(kj::runCatchingExceptions([&] { get("10.0.0.3", "someone"); }) == nullptr);
  again = nullptr;
  bed.scope.poll();
  EXPECT_TRUE(kj::runCatchingExceptions([&] { get("10.0.0.3", "greedy"); }) == nullptr);
}

// Catches: a reader with so many calls to a node that the node closes the shared connection;
// readers who leave nothing for administrators; an end of calls that is not noticed.
TEST_F(PeerConnectionsTest, OneClientHasAPartOfTheCalls) {
  ForwardingLimits few = {.perClient = {.calls = 4, .bytes = 1u << 20},
                          .inTotal = {.calls = 7, .bytes = 4u << 20},
                          .reserve = {.calls = 2, .bytes = 0}};
  PeerConnections small(bed.timer, [this](const Ip& address) { return dial(address.toString()); },
                        {.forwarding = few});
  auto get = [&](kj::StringPtr name, bool privileged = false) {
    bed.caller = kj::str(name);
    auto client = caller({}, name);
    client.privileged = privileged;
    auto node = small.node(Ip::require("10.0.0.3"), kj::mv(client)).wait(bed.scope);
    bed.scope.poll();
    return node;
  };
  auto refusal = [&](auto&& what) {
    auto failure = kj::runCatchingExceptions([&] { what(); });
    return failure == nullptr ? kj::str("taken") : messageOf(KJ_ASSERT_NONNULL(failure));
  };
  auto of = [](kj::StringPtr name) {
    return kj::str(name, " has 4 calls of 65536 bytes to 10.0.0.3 under way; at most 4 of 1048576 ",
                   "bytes are forwarded for one client");
  };
  kj::Maybe<rpc::Node::Client> greedy = get("greedy");
  auto& node = KJ_ASSERT_NONNULL(greedy);
  {
    auto kept = node.machineRequest().send().wait(bed.scope);
    auto machine = kept.getMachine();
    auto first = machine.memoryRequest().send(), second = machine.memoryRequest().send();
    EXPECT_EQ(refusal([&] { use(node); }), of("greedy"));
    EXPECT_EQ(refusal([&] { get("greedy"); }), of("greedy"));
    auto other = get("other");
    EXPECT_EQ(
        refusal([&] { use(other); }),
        "5 calls to 10.0.0.3 are under way, which is the limit for all clients; retry later"_kj);
    auto admin = get("admin", true);
    EXPECT_EQ(refusal([&] { admin.machineRequest().send().wait(bed.scope); }), "taken"_kj);
  }
  bed.scope.poll();
  use(node);
  auto large = node.castAs<rpc::Services>().restartRequest();
  large.setId(kj::str(kj::repeat('x', 1u << 20)));
  EXPECT_NE(refusal([&] {
              large.send().ignoreResult().wait(bed.scope);
            }).startsWith("greedy has 1 calls"),
            false);
}

// Catches: a budget for each address of a node; calls to a node that count for the previous node of
// its address.
TEST_F(PeerConnectionsTest, CallsAreCountedByNode) {
  PeerConnections small(bed.timer, [this](const Ip& address) { return dial(address.toString()); },
                        {.forwarding = {.perClient = {.calls = 4, .bytes = 1u << 20}}});
  bed.caller = kj::str("greedy");
  auto get = [&](kj::StringPtr address) {
    auto node = small.node(Ip::require(address), caller({}, "greedy")).wait(bed.scope);
    bed.scope.poll();
    return node;
  };
  auto refused = [&](kj::StringPtr address) {
    return kj::runCatchingExceptions([&] { use(get(address)); }) != nullptr;
  };
  bed.serial = kj::str("0a");
  auto held = get("10.0.0.3"), again = get("10.0.0.3"), byOther = get("fd00::3");
  EXPECT_TRUE(refused("10.0.0.3"));
  EXPECT_TRUE(refused("fd00::3"));
  EXPECT_TRUE(refused("10.0.0.100")) << "an address that is not known yet";
  EXPECT_EQ(bed.dialled, 3u);
  bed.serial = kj::str("0b");
  EXPECT_FALSE(refused("10.0.0.4"));
  bed.dead = true;
  EXPECT_FALSE(refused("10.0.0.100")) << "which the other node took over";
}

// Catches: uncharged answers of other nodes for a gRPC client, which has no Cap'n Proto connection
// to charge.
TEST_F(PeerConnectionsTest, AnswersAreChargedToTheirClient) {
  Budget budget({.perClient = 7u << 20, .inTotal = 32u << 20});
  auto client = caller({});
  client.account = budget.account("someone");
  auto node = peers.node(Ip::require("10.0.0.3"), kj::mv(client)).wait(bed.scope);
  using Answer = capnp::Response<rpc::Machine::KubeconfigResults>;
  kj::Vector<Answer> kept;
  auto machine = node.machineRequest().send().wait(bed.scope).getMachine();
  auto ask = [&](bool pipelined) {
    auto from = pipelined ? node.machineRequest().send().getMachine() : machine;
    auto failure = kj::runCatchingExceptions(
        [&]() { kept.add(from.kubeconfigRequest().send().wait(bed.scope)); });
    KJ_IF_MAYBE (e, failure) return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e));
    return kj::str("answered");
  };
  constexpr auto kRefusal =
      "ResourceExhausted: the calls of this client use more than 7340032 bytes, over all its "
      "connections"_kj;
  for (bool pipelined : {false, true, false}) EXPECT_EQ(ask(pipelined), "answered"_kj);
  for (bool pipelined : {false, true}) EXPECT_EQ(ask(pipelined), kRefusal);
  kept.clear();
  for (bool pipelined : {true, false, true}) EXPECT_EQ(ask(pipelined), "answered"_kj);
}

// Catches: the copy of an answer that the RPC system keeps for a client that does not finish it.
TEST_F(PeerConnectionsTest, AnswersThatWereSentCountTwice) {
  Budget budget({.perClient = 5u << 20, .inTotal = 32u << 20});
  auto client = caller({});
  client.account = budget.account("someone");
  bed.largeNodes = true;
  auto pipe = kj::newTwoWayPipe();
  capnp::TwoPartyServer server(peers.node(Ip::require("10.0.0.3"), kj::mv(client)).wait(bed.scope));
  server.accept(kj::mv(pipe.ends[0]));
  capnp::TwoPartyClient reader(*pipe.ends[1]);
  auto node = reader.bootstrap().castAs<rpc::Node>();
  kj::Vector<capnp::Response<rpc::Node::MachineResults>> kept;
  auto answered = [&]() {
    return kj::runCatchingExceptions(
               [&]() { kept.add(node.machineRequest().send().wait(bed.scope)); }) == nullptr;
  };
  EXPECT_TRUE(answered());
  EXPECT_TRUE(answered());
  EXPECT_FALSE(answered());
  kept.clear();
  bed.scope.poll();
  EXPECT_TRUE(answered());
}

// Catches: uncharged answers of a client that uses only the capabilities in them and never reads
// them.
TEST_F(PeerConnectionsTest, AnswersForTheirCapabilitiesAloneAreCharged) {
  Budget budget({.perClient = 5u << 20, .inTotal = 32u << 20});
  auto account = budget.account("someone");
  auto client = caller({});
  client.account = kj::addRef(*account);
  bed.largeNodes = true;
  auto node = peers.node(Ip::require("10.0.0.3"), kj::mv(client)).wait(bed.scope);
  kj::Vector<rpc::Node::MachineResults::Pipeline> kept;
  for (int i = 0; i < 2; ++i) {
    auto& pipeline = kept.add(node.machineRequest().sendForPipeline());
    pipeline.getMachine().versionRequest().send().wait(bed.scope);
    bed.scope.poll();
  }
  auto hasRoom = [&]() {
    return kj::runCatchingExceptions([&]() { account->hold(2u << 20); }) == nullptr;
  };
  EXPECT_FALSE(hasRoom());
  auto refused = node.machineRequest().sendForPipeline();
  bed.scope.poll();
  EXPECT_EQ(bed.largeAnswers, 2u) << "it is kept without a charge";
  kept.clear();
  bed.scope.poll();
  EXPECT_EQ(bed.largeAnswers, 0u);
  EXPECT_TRUE(hasRoom());
}

// Catches: a reader whose calls fail because another reader, or the node, ended the shared
// connection.
TEST_F(PeerConnectionsTest, AReadIsMadeAgainOverANewConnection) {
  auto held = node("10.0.0.3");
  auto machine = held.machineRequest().send().wait(bed.scope).getMachine();
  auto version = [&]() {
    return kj::str(machine.versionRequest().send().wait(bed.scope).getTag());
  };
  for (unsigned i = 1; i <= 2; ++i) {
    bed.lostCalls = 1;
    use(held);  // in one round trip
    bed.lostCalls = 1;
    EXPECT_EQ(version(), "remote"_kj);
    EXPECT_EQ(bed.dialled, 1 + 2 * i);
  }
  bed.calls = 0;
  auto dialled = bed.dialled;
  EXPECT_EQ(version(), "remote"_kj);
  EXPECT_EQ(bed.calls, 1u);
  EXPECT_EQ(bed.dialled, dialled) << "the newest connection is not used";
  for (auto& roles : bed.asked) EXPECT_EQ(roles, "os:reader"_kj);
  // Callers that fail together share a new connection.
  auto paf = kj::newPromiseAndFulfiller<void>();
  bed.gate = kj::mv(paf.promise);
  bed.lostCalls = 3;
  kj::Vector<kj::Promise<void>> calls;
  for (unsigned i = 0; i < 3; ++i) calls.add(machine.versionRequest().send().ignoreResult());
  bed.scope.poll();
  EXPECT_EQ(bed.lostCalls, 0u);
  paf.fulfiller->fulfill();
  kj::joinPromises(calls.releaseAsArray()).wait(bed.scope);
  EXPECT_EQ(bed.dialled, dialled + 1);
}

// Catches: a node that is called for ever; a call that is retried although it may have taken
// effect, or although the node has answered.
TEST_F(PeerConnectionsTest, FailedCallThatMayHaveRunIsNotRepeated) {
  auto machine = node("10.0.0.3").machineRequest().send().wait(bed.scope).getMachine();
  auto error = [&](auto&& call) {
    bed.calls = 0;
    auto failure = kj::runCatchingExceptions([&]() { call(); });
    return kj::str(bed.calls, " ", messageOf(KJ_ASSERT_NONNULL(failure)));
  };
  auto version = [&]() { machine.versionRequest().send().ignoreResult().wait(bed.scope); };
  auto reboot = [&]() { machine.rebootRequest().send().ignoreResult().wait(bed.scope); };
  bed.unavailable = true;
  EXPECT_EQ(error(version), "1 10.0.0.3:50000: the connection was lost"_kj);
  bed.unavailable = false;
  bed.lostCalls = 2;
  EXPECT_EQ(error(version), "2 10.0.0.3:50000: the connection was lost"_kj);
  bed.dead = false;
  bed.lostCalls = 1;
  EXPECT_EQ(error(reboot), "1 10.0.0.3:50000: the connection was lost"_kj);
  bed.refuse = true;
  bed.lostCalls = 1;
  EXPECT_EQ(error(version), "1 10.0.0.3:50000: Connection refused"_kj);
}

// Catches: hosts that are not nodes, whose connections take the places of nodes.
TEST_F(PeerConnectionsTest, UnverifiedPeersHaveAPartOfTheTargets) {
  PeerConnections small(bed.timer,
                        [this](const Ip& address) {
                          bed.verificationError = kj::str("self-signed certificate");
                          return dial(address.toString());
                        },
                        {.targets = 3, .perClient = 3, .unverified = 1, .idle = 60 * kj::SECONDS});
  auto get = [&](kj::StringPtr address) {
    return small.node(Ip::require(address), caller({})).wait(bed.scope);
  };
  {
    auto first = get("10.0.0.1");
    auto failure = kj::runCatchingExceptions([&] { get("10.0.0.2"); });
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kResourceExhausted);
    EXPECT_EQ(bed.open, 1u) << "the second connection stays";
  }
  bed.pass(61 * kj::SECONDS);
  get("10.0.0.2");
}

// Catches: a call by name that reaches another node over a connection opened by a call by address,
// or that is retried there; a new certificate with the name that is never noticed.
TEST_F(PeerConnectionsTest, ANameIsRequiredOfEachConnection) {
  auto byName = [&](kj::StringPtr name) {
    auto target = OtherNode(Ip::require("10.0.0.3"), kj::str(name));
    return peers.node(kj::mv(target), caller({"os:admin"})).wait(bed.scope);
  };
  auto refused = [&](auto&& what) {
    auto failure = kj::runCatchingExceptions([&] { what(); });
    KJ_IF_MAYBE (e, failure) {
      return kindOf(*e) == ErrorKind::kFailedPrecondition &&
             messageOf(*e).startsWith("the certificate of 10.0.0.3 lacks the name \"w1\"");
    }
    return false;
  };
  auto byAddress = node("10.0.0.3");
  use(byAddress);
  EXPECT_TRUE(refused([&] { byName("w1"); }));
  ASSERT_EQ(bed.asked.size(), 1u) << "the roles of the second client were sent";
  bed.names.add(kj::str("w1"));
  bed.pass(1 * kj::SECONDS);
  EXPECT_TRUE(refused([&] { byName("w1"); })) << "the connection is in use";
  EXPECT_EQ(bed.dialled, 1u);
  byAddress = nullptr;
  bed.scope.poll();
  auto named = byName("w1");
  use(named);
  EXPECT_EQ(bed.dialled, 2u);
  // The connection ends, and the next one leads to another node.
  bed.names.clear();
  bed.lostCalls = 1;
  EXPECT_TRUE(refused([&] { use(named); }));
  EXPECT_EQ(bed.dialled, 3u);
}

// Catches: the remains of a connection that broke a limit, kept until the next call.
TEST_F(PeerConnectionsTest, ALostConnectionIsGivenUpAtOnce) {
  auto held = node("10.0.0.3");
  use(held);
  bed.dead = true;
  bed.ends[0]->fulfill();
  bed.scope.poll();
  EXPECT_EQ(bed.open, 0u);
  use(node("10.0.0.3"));
  EXPECT_EQ(bed.open, 1u);
}

}  // namespace
}  // namespace talos::apid
