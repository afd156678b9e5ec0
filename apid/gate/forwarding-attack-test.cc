// Readers that use the connection between two nodes against those who share it: each is refused,
// and an honest call to the same node is answered.
#include "apid/gate/test-apid.h"

namespace talos::apid {
namespace {

constexpr auto kOther = "10.0.0.2"_kj;

struct ForwardingAttack : testing::ApidTest {
  ~ForwardingAttack() noexcept override {}

  void startBoth() {
    start(a);
    b.certify(authority);
    b.startMachined();
    b.startApid({.questions = 2048});  // as apid/main.cc
    wait(b.identity.ready());
    while (b.identity.self().addresses.size() == 0) wait(timer.afterDelay(1 * kj::MILLISECONDS));
  }
  Session connectTo(testing::TestNode& node, kj::StringPtr name) {
    return connect(node, authority.client(name, kj::arr("os:reader"_kj)));
  }
  static rpc::Node::Client other(Session& session, kj::StringPtr address = kOther) {
    auto request = session.cluster.nodeRequest();
    request.setAddress(address);
    return request.send().getNode();
  }
  void expectAnswered(Session& honest) {
    EXPECT_EQ(version(machine(honest.cluster, kOther)), "node 10.0.0.2"_kj);
  }
};

// Catches: readers with streams that they do not read, for whom this node stops reading from the
// other one.
TEST_F(ForwardingAttack, UnreadStreams) {
  startBoth();
  auto honest = connectTo(a, "honest");
  expectAnswered(honest);
  Session evil[] = {connectTo(a, "one"), connectTo(a, "two"), connectTo(a, "three")};
  kj::Vector<kj::Promise<void>> reading;
  for (auto& session : evil) {
    auto logs = other(session).logsRequest().send().getLogs();
    for (unsigned i = 0; i < 100; ++i) {
      auto request = logs.readRequest();
      request.setSink(kj::heap<testing::SlowSink>());
      reading.add(request.send().ignoreResult().eagerlyEvaluate([&](kj::Exception&& e) {
        EXPECT_EQ(kindOf(e), ErrorKind::kResourceExhausted) << messageOf(e).cStr();
      }));
    }
  }
  // Until the other node sends nothing more.
  auto end = timer.now() + 10 * kj::SECONDS;
  for (unsigned quiet = 0; quiet < 100 && timer.now() < end; ++quiet) {
    auto before = b.model.sent;
    io.waitScope.poll();
    if (b.model.sent != before || b.model.sent == 0) quiet = 0;
  }
  EXPECT_GT(b.model.sent, 500u) << "of 16 KiB";
  expectAnswered(honest);
}

// Catches: readers who keep so many answers of another node that it closes the connection.
TEST_F(ForwardingAttack, KeptAnswers) {
  startBoth();
  auto honest = connectTo(a, "honest");
  auto held = machine(honest.cluster, kOther);
  EXPECT_EQ(version(held), "node 10.0.0.2"_kj);
  Session evil[] = {connectTo(a, "evil"), connectTo(a, "evil")};
  kj::Vector<capnp::Response<rpc::Node::MachineResults>> kept;
  unsigned refused = 0;
  for (auto& session : evil) {
    auto node = other(session);
    kj::Vector<kj::Promise<void>> calls;
    for (unsigned i = 0; i < 1025; ++i) {
      calls.add(node.machineRequest().send().then(
          [&](auto&& answer) { kept.add(kj::mv(answer)); },
          [&](kj::Exception&& e) {
            EXPECT_EQ(kindOf(e), ErrorKind::kResourceExhausted) << messageOf(e).cStr();
            ++refused;
          }));
    }
    wait(kj::joinPromises(calls.releaseAsArray()));
  }
  EXPECT_EQ(version(held), "node 10.0.0.2"_kj) << "the connection was closed";
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(kept.size(), 500u);
  expectAnswered(honest);
}

// Catches: readers whose calls fail because the node ended the connection that all share; one that
// must ask for the node again; a reboot that is requested twice.
TEST_F(ForwardingAttack, AConnectionThatTheNodeEnds) {
  startBoth();
  auto first = connectTo(a, "one"), second = connectTo(a, "two");
  auto admin = connect(a, authority.client("admin", kj::arr("os:admin"_kj)));
  auto held = machine(first.cluster, kOther), other = machine(second.cluster, kOther),
       changing = machine(admin.cluster, kOther);
  for (auto each : {&held, &other, &changing}) EXPECT_EQ(version(*each), "node 10.0.0.2"_kj);
  auto one = held.versionRequest().send().then([](auto&& r) { return kj::str(r.getTag()); });
  auto two = other.versionRequest().send().then([](auto&& r) { return kj::str(r.getTag()); });
  auto reboot = changing.rebootRequest().send().ignoreResult();
  b.stopApid();
  auto failure = failureOf(kj::mv(reboot));
  EXPECT_EQ(kindOf(failure), ErrorKind::kUnavailable) << messageOf(failure).cStr();
  EXPECT_EQ(messageOf(failure), kj::str("127.0.0.1:", b.port, ": the connection was lost"));
  b.startApid();
  EXPECT_EQ(wait(kj::mv(one)), "node 10.0.0.2"_kj);
  EXPECT_EQ(wait(kj::mv(two)), "node 10.0.0.2"_kj);
  EXPECT_EQ(version(held), "node 10.0.0.2"_kj);
  EXPECT_EQ(b.model.reboots, 0u);
}

// Catches: a reader that has as many calls with a node as it has addresses, until the node, which
// knows only this one as its client, closes the connections.
TEST_F(ForwardingAttack, AddressesOfOneNodeShareItsLimits) {
  startBoth();
  auto evil = connectTo(a, "evil");
  kj::Vector<capnp::Response<rpc::Node::MachineResults>> kept;
  unsigned refused = 0;
  for (auto address : {kOther, "fd00::2"_kj, "::ffff:10.0.0.2"_kj, "FD00:0:0::0002"_kj}) {
    auto node = other(evil, address);
    kj::Vector<kj::Promise<void>> calls;
    for (unsigned i = 0; i < 400; ++i) {
      calls.add(node.machineRequest().send().then(
          [&](auto&& answer) { kept.add(kj::mv(answer)); },
          [&](kj::Exception&& e) {
            EXPECT_EQ(kindOf(e), ErrorKind::kResourceExhausted) << messageOf(e).cStr();
            ++refused;
          }));
    }
    wait(kj::joinPromises(calls.releaseAsArray()));
  }
  EXPECT_GT(kept.size(), 400u);
  EXPECT_LE(kept.size(), 512u) << "what one client may have under way with one node";
  EXPECT_EQ(kept.size() + refused, 1600u);
}

}  // namespace
}  // namespace talos::apid
