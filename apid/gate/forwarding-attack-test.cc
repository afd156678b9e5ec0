// Readers that attack the shared connection between two nodes: each is refused, and an honest call
// to the same node is answered. Workers that claim the name or the address of another node: the
// real node is called, or none.
#include "apid/gate/test-apid.h"

namespace talos::apid {
namespace {

using testing::TestNode;

constexpr auto kOther = "10.0.0.2"_kj;

struct ForwardingAttack : testing::ApidTest {
  ~ForwardingAttack() noexcept override {}

  void startBoth() {
    start(a);
    b.certify(authority);
    b.startMachined();
    b.startApid({.questions = 2048});  // as in apid/main.cc
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

// Catches: readers with unread streams that make this node stop reading from the other one.
TEST_F(ForwardingAttack, UnreadStreamsOfOneClientDoNotStopOthers) {
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
  // Waits until the other node sends nothing more.
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
TEST_F(ForwardingAttack, KeptAnswersOfOneClientDoNotCloseTheConnection) {
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

// Catches: readers whose calls fail because the node ended the shared connection; a reader that
// must request the node again; a reboot that is requested twice.
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

// Catches: a reader that multiplies its calls with a node by the node's addresses, until the node,
// for which this node is the only client, closes the connections.
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

constexpr auto kWorker = "10.0.0.3"_kj;

// The control planes a and b, which is cp-2, and a worker in foreign hands, which is a-worker: the
// first in the list of members.
struct ClaimedNames : ForwardingAttack {
  TestNode worker{io, kWorker};
  kj::Maybe<Session> admin;

  ~ClaimedNames() noexcept override {}
  ClaimedNames() { third = &worker; }

  void startAs(TestNode& node, std::initializer_list<kj::StringPtr> names) {
    auto list = kj::arrayPtr(names.begin(), names.size());
    node.publish(&node == &worker ? authority.forWorker(node.address, list)
                                  : authority.forNode(node.address, list));
    node.startMachined();
    node.startApid();
    wait(node.identity.ready());
  }
  void startControlPlanes() {
    start(a);
    startAs(b, {"cp-2"_kj});
    admin = connect(a, authority.client("admin", kj::arr("os:admin"_kj)));
  }
  // Adds a member to the members that `a`, the endpoint, knows from Kubernetes.
  void member(kj::StringPtr name, kj::StringPtr type, kj::StringPtr hostname,
              kj::StringPtr address) {
    a.model.store.kind<rpc::MemberSpec>().set<rpc::MemberSpec>(name, "kubed", [&](auto spec) {
      spec.setHostname(hostname);
      spec.setMachineType(type);
      spec.initAddresses(1).set(0, address);
    });
    auto known = [&] {
      for (auto& one : a.identity.self().members) {
        if (one.name == name && one.addresses[0] == Ip::require(address)) return true;
      }
      return false;
    };
    auto end = timer.now() + 20 * kj::SECONDS;
    while (!known() && timer.now() < end) wait(timer.afterDelay(1 * kj::MILLISECONDS));
    EXPECT_TRUE(known()) << name.cStr();
  }
  // Returns the node that gets a config for this name, or the error.
  std::string configFor(kj::StringPtr name) {
    auto before = b.model.applies, evil = worker.model.applies;
    auto request = KJ_ASSERT_NONNULL(admin).cluster.nodeRequest();
    request.setAddress(name);
    auto apply =
        request.send().getNode().configurationRequest().send().getConfiguration().applyRequest();
    auto failure = kj::runCatchingExceptions([&] { wait(apply.send().ignoreResult()); });
    KJ_IF_MAYBE (e, failure) {
      return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    }
    return b.model.applies > before ? "cp-2" : worker.model.applies > evil ? "worker" : "neither";
  }
};

// Catches: a config, with every key of the cluster, that a worker gets by the name that its kubelet
// reports; a worker that blocks calls to a control plane by reporting its name or address.
TEST_F(ClaimedNames, AreReportedByAKubelet) {
  startControlPlanes();
  startAs(worker, {"a-worker"_kj});
  member("cp-2", "controlplane", "cp-2", "10.0.0.2");
  member("a-worker", "worker", "cp-2", kWorker);
  EXPECT_EQ(configFor("cp-2"), "cp-2");
  EXPECT_EQ(worker.model.requests.size(), 0u);
  EXPECT_EQ(configFor("a-worker"), "worker") << "it has this name";
  auto before = worker.model.requests.size();
  member("a-worker", "worker", "cp-2", "10.0.0.2");
  EXPECT_EQ(configFor("cp-2"), "cp-2");
  EXPECT_EQ(
      configFor("a-worker"),
      "FailedPrecondition: \"a-worker\" has the address 10.0.0.2, which \"cp-2\" has as well; "
      "use the IP address of the node that you mean");
  member("a-worker", "worker", "cp-2", "10.0.0.77");
  EXPECT_NE(configFor("a-worker").find("Unavailable: 10.0.0.77"), std::string::npos);
  EXPECT_EQ(configFor("cp-2"), "cp-2");
  EXPECT_EQ(worker.model.requests.size(), before);
}

// Catches: a worker that gets a control plane's calls because it has the control plane's former
// address, and a certificate with its name from a trustd that did not know the control planes yet.
TEST_F(ClaimedNames, AreInAWorkersCertificate) {
  startControlPlanes();
  startAs(worker, {"a-worker"_kj, "cp-2"_kj});
  member("cp-2", "controlplane", "cp-2", kWorker);
  EXPECT_EQ(
      configFor("cp-2"),
      "FailedPrecondition: the certificate of 10.0.0.3 is a worker's, so no call for the "
      "control-plane node \"cp-2\" is sent to it; use -n 10.0.0.3 if you mean the node at this "
      "address");
  member("b-worker", "worker", "b-worker", kWorker);
  member("cp-2", "controlplane", "cp-2", "10.0.0.2");
  EXPECT_NE(configFor("b-worker").find("10.0.0.3 lacks the name \"b-worker\""), std::string::npos);
  EXPECT_EQ(worker.model.requests.size(), 0u);
  EXPECT_EQ(configFor(kWorker), "worker") << "as the error says";
  EXPECT_EQ(configFor("cp-2"), "cp-2");
}

// Catches: a host without a certificate that is queried as a control plane; a worker that cannot be
// queried by its name while it waits for its certificate.
TEST_F(ClaimedNames, OfANodeWithoutACertificate) {
  startControlPlanes();
  worker.startMachined();
  worker.startApid();
  worker.identity.setJoinAuthority(authority.pair.certificate);
  wait(worker.identity.ready());
  member("cp-2", "controlplane", "cp-2", kWorker);
  EXPECT_NE(configFor("cp-2").find("so no call for the control-plane node \"cp-2\" is sent to it"),
            std::string::npos);
  EXPECT_EQ(worker.model.requests.size(), 0u);
  member("cp-2", "controlplane", "cp-2", "10.0.0.2");
  member("a-worker", "worker", "a-worker", kWorker);
  auto cluster = KJ_ASSERT_NONNULL(admin).cluster;
  EXPECT_EQ(version(machine(cluster, "a-worker")), "node 10.0.0.3 (not authenticated)"_kj);
  EXPECT_NE(configFor("a-worker").find("is not sent to it"), std::string::npos);
  EXPECT_EQ(worker.model.applies, 0u);
}

}  // namespace
}  // namespace talos::apid
