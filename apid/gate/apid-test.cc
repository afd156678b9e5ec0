// apid as its clients see it: real TLS over loopback, real sockets, a model of machined.
#include <capnp/rpc-twoparty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apid/gate/test-apid.h"

namespace talos::apid {
namespace {

using testing::Authority;
using testing::SlowSink;
using testing::TestNode;

using Apid = testing::ApidTest;

// Catches: a reader that may change the node, an admin that may not, an untraceable refusal.
TEST_F(Apid, RolesOfTheCertificate) {
  start(a);
  auto reader = connectAs(a, {"os:reader"});
  EXPECT_EQ(version(machine(reader.cluster)), "node 10.0.0.1"_kj);
  ::testing::internal::CaptureStderr();
  auto e = rebootFailure(machine(reader.cluster));
  auto line = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(kindOf(e), ErrorKind::kPermissionDenied);
  EXPECT_EQ(messageOf(e),
            "Machine.reboot needs the role os:operator; this caller has os:reader"_kj);
  EXPECT_THAT(line,
              ::testing::MatchesRegex(
                  "time=\\S+ level=warning message=\"call denied\" peer=127.0.0.1 cn=someone "
                  "request=a91d-2 method=Machine.reboot needed=os:operator roles=os:reader\n"));
  EXPECT_EQ(a.model.reboots, 0u);

  auto admin = connectAs(a, {"os:admin"});
  wait(machine(admin.cluster).rebootRequest().send().ignoreResult());
  EXPECT_EQ(a.model.reboots, 1u);
}

// Catches: a client whose denied calls, over one connection or many, push everything else out of
// apid's log.
TEST_F(Apid, DeniedCallsAreABoundedNumberOfLines) {
  start(a);
  ::testing::internal::CaptureStderr();
  for (int connection = 0; connection < 10; ++connection) {
    auto reader = connectAs(a, {"os:reader"});
    auto nobody = connectAs(a, {"nothing"});
    for (int i = 0; i < 20; ++i) rebootFailure(machine(reader.cluster));
  }
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_GE(std::count(log.begin(), log.end(), '\n'), 3) << log;
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 20) << log;
}

// Catches: a certificate without a role, or whose O only resembles a role, that is allowed a call.
TEST_F(Apid, NoRoleNoRight) {
  start(a);
  auto session = connectAs(a, {"system:masters", "admin"});
  auto e = failureOf(machine(session.cluster).versionRequest().send().ignoreResult());
  EXPECT_EQ(kindOf(e), ErrorKind::kPermissionDenied);
  EXPECT_EQ(messageOf(e),
            "Cluster.node needs the role os:reader or os:etcd:backup; this caller has none"_kj);
}

// Catches: a reader that fills the memory with roles, which stay as long as the Cluster that it
// gets.
TEST_F(Apid, WithRolesTakesFewRoles) {
  start(a);
  auto reader = connectAs(a, {"os:reader"});
  auto ask = [&](unsigned count) {
    auto request = reader.cluster.withRolesRequest();
    auto list = request.initRoles(count);
    for (unsigned i = 0; i < count; ++i) list.set(i, "os:reader");
    return request.send().ignoreResult();
  };
  wait(ask(64));
  auto e = failureOf(ask(65));
  EXPECT_EQ(kindOf(e), ErrorKind::kInvalidArgument);
  EXPECT_EQ(messageOf(e), "65 roles are too many; at most 64"_kj);
}

// Catches: roles that grow by requesting them.
TEST_F(Apid, WithRolesOnlyTakesAway) {
  start(a);
  auto reader = connectAs(a, {"os:reader"});
  auto same = withRoles(reader.cluster, {"os:admin"});
  EXPECT_EQ(version(machine(same)), "node 10.0.0.1"_kj);
  EXPECT_EQ(kindOf(rebootFailure(machine(same))), ErrorKind::kPermissionDenied);
  auto nobody = withRoles(reader.cluster, {});
  EXPECT_EQ(kindOf(failureOf(machine(nobody).versionRequest().send().ignoreResult())),
            ErrorKind::kPermissionDenied);

  auto admin = connectAs(a, {"os:admin"});
  auto less = withRoles(admin.cluster, {"os:reader"});
  EXPECT_EQ(version(machine(less)), "node 10.0.0.1"_kj);
  EXPECT_EQ(kindOf(rebootFailure(machine(less))), ErrorKind::kPermissionDenied);
}

// Catches: another node's apid that can do more than pass roles on, or whose calls loop.
TEST_F(Apid, ImpersonatorMayOnlyPassRolesOn) {
  start(a);
  start(b);
  auto session = connectAs(a, {"os:impersonator"});
  auto e = failureOf(machine(session.cluster).versionRequest().send().ignoreResult());
  EXPECT_EQ(kindOf(e), ErrorKind::kPermissionDenied);
  EXPECT_NE(messageOf(e).findFirst('w'), nullptr);

  auto reader = withRoles(session.cluster, {"os:reader", "os:impersonator", "nonsense"});
  EXPECT_EQ(version(machine(reader)), "node 10.0.0.1"_kj);
  EXPECT_EQ(kindOf(rebootFailure(machine(reader))), ErrorKind::kPermissionDenied);
  wait(machine(withRoles(session.cluster, {"os:admin"})).rebootRequest().send().ignoreResult());
  EXPECT_EQ(a.model.reboots, 1u);

  auto onward = failureOf(machine(reader, "10.0.0.2").versionRequest().send().ignoreResult());
  EXPECT_EQ(kindOf(onward), ErrorKind::kFailedPrecondition);
}

// Catches: a forwarded call that reaches the wrong node, or gains the roles of the forwarding node.
TEST_F(Apid, ForwardsWithTheCallersRoles) {
  start(a);
  start(b);
  auto reader = connectAs(a, {"os:reader"});
  auto local = machine(reader.cluster, "10.0.0.1"), remote = machine(reader.cluster, "10.0.0.2");
  auto both = local.versionRequest().send();
  EXPECT_EQ(version(remote), "node 10.0.0.2"_kj);
  EXPECT_EQ(wait(both.then([](auto&& r) { return kj::str(r.getTag()); })), "node 10.0.0.1"_kj);
  EXPECT_EQ(kindOf(rebootFailure(remote)), ErrorKind::kPermissionDenied);
  EXPECT_EQ(b.model.reboots, 0u);

  auto admin = connectAs(a, {"os:admin"});
  wait(machine(admin.cluster, "10.0.0.2").rebootRequest().send().ignoreResult());
  EXPECT_EQ(b.model.reboots, 1u);
  EXPECT_EQ(a.model.reboots, 0u);
}

// Catches: clients of another node's apid that are one client for machined, so that each can use up
// the limit of all; an unlimited number of names, each of which costs a connection; names that
// vanished and keep their places.
TEST_F(Apid, ClientsOfAnotherNodeHaveTheirOwnLimits) {
  start(a);
  start(b);
  struct Asked {
    Session session;
    rpc::Machine::Client machine;
  };
  auto ask = [&](kj::StringPtr name) {
    auto session = connect(a, authority.client(name, kj::arr("os:reader"_kj)));
    auto remote = machine(session.cluster, "10.0.0.2");
    version(remote);
    return Asked{kj::mv(session), kj::mv(remote)};
  };
  auto newest = [&]() { return b.model.callers.back().asPtr(); };
  auto gone = [&]() {  // all but apid's connection, and that of the other apid itself
    while (b.model.connections > 2)
      io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
  };
  for (unsigned i = 0; i < 40; ++i) {
    auto name = kj::str("client ", i);
    ask(name);
    EXPECT_TRUE(newest().endsWith(kj::str(" for ", name))) << newest().cStr();
    gone();
  }
  auto before = b.model.callers.size();
  kj::Vector<Asked> all;
  for (unsigned i = 0; i < 40; ++i) all.add(ask(kj::str("client ", i)));
  EXPECT_EQ(b.model.callers.size(), before + 33);  // names beyond the limit share the node's
                                                   // connection
  EXPECT_LE(b.model.connections, 34u);             // and apid's connection
  all.clear();
  gone();
}

// Catches: a node that is down and fails the answers of the others; an error that does not name its
// node.
TEST_F(Apid, ErrorsAreOfTheNode) {
  start(a);
  start(b);
  auto session = connectAs(a, {"os:reader"});
  auto down = machine(session.cluster, "10.0.0.3").versionRequest().send();
  auto named = machine(session.cluster, "node3").versionRequest().send();
  EXPECT_EQ(version(machine(session.cluster, "10.0.0.2")), "node 10.0.0.2"_kj);
  auto e = failureOf(down.ignoreResult());
  EXPECT_EQ(kindOf(e), ErrorKind::kUnavailable);
  EXPECT_TRUE(messageOf(e).startsWith("10.0.0.3: ")) << messageOf(e).cStr();
  EXPECT_EQ(kindOf(failureOf(named.ignoreResult())), ErrorKind::kInvalidArgument);
  EXPECT_EQ(version(machine(session.cluster)), "node 10.0.0.1"_kj);
}

// Catches: strangers that are admitted; a refusal that leaves no trace or does harm.
TEST_F(Apid, StrangersAreRefusedAndLogged) {
  start(a);
  auto expectRefused = [&](Credentials credentials, const char* error) {
    ::testing::internal::CaptureStderr();
    auto failure = kj::runCatchingExceptions([&] {
      auto session = connect(a, kj::mv(credentials));
      version(machine(session.cluster));
    });
    auto lines = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(failure, nullptr) << error;
    EXPECT_NE(lines.find("handshake refused"), std::string::npos) << lines;
    EXPECT_NE(lines.find(error), std::string::npos) << lines;
  };
  kj::StringPtr admin[] = {"os:admin"_kj};
  auto stranger = otherAuthority.client("someone", admin);
  stranger.authorities = kj::str(authority.pair.certificate);
  expectRefused(kj::mv(stranger), "unable to get local issuer certificate");

  pki::LeafOptions options;
  options.organizations = kj::arr(kj::str("os:admin"));
  options.lifetime = 1 * kj::HOURS;
  options.notBefore = kj::UNIX_EPOCH + 1'000'000'000 * kj::SECONDS;
  auto expired = pki::issue(authority.pair.certificate, authority.pair.key, kj::mv(options));
  expectRefused(
      {kj::str(authority.pair.certificate), kj::mv(expired.certificate), kj::mv(expired.key)},
      "certificate has expired");
  EXPECT_EQ(version(machine(connectAs(a, {"os:reader"}).cluster)), "node 10.0.0.1"_kj);
}

// Catches: an apid that serves without certificates, never starts, or must be restarted for new
// ones.
TEST_F(Apid, CertificatesComeFromTheStore) {
  a.startMachined();
  a.startApid();
  kj::StringPtr reader[] = {"os:reader"_kj};
  auto early = kj::heap<TlsEndpoint>(authority.client("early", reader));
  auto connecting = connectTls(*io.lowLevelProvider, timer, *early, "127.0.0.1", a.port, a.address)
                        .eagerlyEvaluate(nullptr);
  while (a.model.store.watches() < 3) wait(timer.afterDelay(1 * kj::MILLISECONDS));
  EXPECT_FALSE(connecting.poll(io.waitScope));
  a.certify(authority);
  auto connection = wait(kj::mv(connecting));
  auto cluster = connection->bootstrap().castAs<rpc::Cluster>();
  EXPECT_EQ(version(machine(cluster)), "node 10.0.0.1"_kj);

  auto broken = kj::heap<capnp::MallocMessageBuilder>();
  broken->initRoot<rpc::ApiCertificateSpec>().setCa("no certificate"_kj.asBytes());
  a.publish(kj::mv(broken));
  EXPECT_EQ(version(machine(connectAs(a, {"os:reader"}).cluster)), "node 10.0.0.1"_kj);

  a.certify(otherAuthority);  // another authority: it does not accept the old clients, but their
                              // connections stay
  EXPECT_EQ(version(machine(cluster)), "node 10.0.0.1"_kj);
  auto renewed = connect(a, otherAuthority.client("late", reader));
  EXPECT_EQ(version(machine(renewed.cluster)), "node 10.0.0.1"_kj);
}

// Catches: a client that has to dial again, or an apid that must be restarted, after a restart of
// machined.
TEST_F(Apid, SurvivesARestartOfMachined) {
  start(a);
  auto session = connectAs(a, {"os:reader"});
  auto before = machine(session.cluster);
  EXPECT_EQ(version(before), "node 10.0.0.1"_kj);
  a.stopMachined();
  EXPECT_EQ(kindOf(failureOf(before.versionRequest().send().ignoreResult())),
            ErrorKind::kUnavailable);
  a.startMachined();
  EXPECT_EQ(version(machine(session.cluster)), "node 10.0.0.1"_kj);
}

// Catches: a held Machine capability that breaks when the capabilities it was obtained through are
// dropped.
TEST_F(Apid, CapabilitiesOutliveTheClusterTheyCameBy) {
  start(a);
  start(b);
  auto session = connectAs(a, {"os:reader"});
  auto local = machine(session.cluster), remote = machine(session.cluster, "10.0.0.2");
  EXPECT_EQ(version(local), "node 10.0.0.1"_kj);
  EXPECT_EQ(version(remote), "node 10.0.0.2"_kj);
  session.cluster = nullptr;
  EXPECT_EQ(version(local), "node 10.0.0.1"_kj);
  EXPECT_EQ(version(remote), "node 10.0.0.2"_kj);
}

// Catches: a slow reader of a forwarded stream that makes any of the three processes grow; a stream
// that continues after its reader has gone.
TEST_F(Apid, ForwardedStreamsKeepBackPressureAndCancellation) {
  start(a);
  start(b);
  auto session = connectAs(a, {"os:reader"});
  {
    auto node = session.cluster.nodeRequest();
    node.setAddress("10.0.0.2");
    auto request = node.send().getNode().logsRequest().send().getLogs().readRequest();
    request.setSink(kj::heap<SlowSink>());
    auto reading = request.send();
    unsigned before;
    do {
      before = b.model.sent;
      io.waitScope.poll();
    } while (b.model.sent != before || b.model.readers == 0);
    EXPECT_LT(b.model.sent, 300u);  // 16 KiB each: about a socket's window, not without end
  }
  while (b.model.readers > 0) wait(timer.afterDelay(1 * kj::MILLISECONDS));
}

// Catches: connections to machined that accumulate after their clients have gone.
TEST_F(Apid, ConnectionToMachinedEndsWithItsClient) {
  start(a);
  EXPECT_EQ(a.model.connections, 1u);
  {
    auto session = connectAs(a, {"os:reader"});
    auto request =
        session.cluster.nodeRequest().send().getNode().logsRequest().send().getLogs().readRequest();
    request.setSink(kj::heap<SlowSink>());
    auto reading = request.send();
    auto idle = connectAs(a, {"os:reader"});
    while (a.model.readers == 0) wait(timer.afterDelay(1 * kj::MILLISECONDS));
    EXPECT_EQ(a.model.connections, 2u);  // no connection for the client that made no call
  }
  while (a.model.connections > 1) wait(timer.afterDelay(1 * kj::MILLISECONDS));
}

// Catches: a client with a share of machined for each of its connections; two clients that share
// one.
TEST_F(Apid, AClientHasOneConnectionToMachined) {
  start(a);
  auto credentials = authority.client("someone", {"os:reader"_kj});
  auto copy = [&]() {
    return Credentials{kj::str(credentials.authorities), kj::str(credentials.certificate),
                       credentials.key.clone()};
  };
  auto first = connect(a, copy()), second = connect(a, copy());
  version(machine(first.cluster));
  version(machine(second.cluster));
  EXPECT_EQ(a.model.connections, 2u);  // apid's connection and this client's
  auto other = connectAs(a, {"os:reader"});
  version(machine(other.cluster));
  EXPECT_EQ(a.model.connections, 3u);
  ASSERT_EQ(a.model.callers.size(), 2u);
  EXPECT_GT(a.model.callers[0].size(), 0u);
  EXPECT_NE(a.model.callers[0], a.model.callers[1]);
}

// --- maintenance mode ---

struct Maintained : Apid {
  ~Maintained() noexcept override {}

  void startMaintained(TestNode& node) {
    node.maintain(authority);
    node.startMachined();
    node.startApid();
    wait(node.identity.ready());
    while (node.identity.self().addresses.size() == 0) wait(timer.afterDelay(1 * kj::MILLISECONDS));
  }
  // Connects as a client without a certificate that knows the machine's certificate.
  Session visit(TestNode& node) {
    auto own = pki::makeAuthority({});
    return connect(node,
                   {kj::str(authority.pair.certificate), kj::mv(own.certificate), kj::mv(own.key)});
  }
  static kj::Promise<kj::String> apply(rpc::Cluster::Client cluster) {
    return cluster.nodeRequest()
        .send()
        .getNode()
        .configurationRequest()
        .send()
        .getConfiguration()
        .applyRequest()
        .send()
        .then([](auto&& r) { return kj::str(r.getResult().getBootId()); });
  }
  template <typename T>
  std::string failure(kj::Promise<T> promise) {
    auto e = failureOf(kj::mv(promise));
    return std::string(nameOf(kindOf(e)).cStr()) + ": " + messageOf(e).cStr();
  }
};

// Catches: a method that is open to everyone without the mark; a marked method that is not; a
// machine in maintenance that forwards calls to others.
TEST_F(Maintained, ServesWhatIsMarkedAndNothingElse) {
  startMaintained(a);
  start(b);
  auto session = visit(a);
  EXPECT_EQ(version(machine(session.cluster)), "node 10.0.0.1"_kj);
  EXPECT_EQ(version(machine(session.cluster, "10.0.0.1")), "node 10.0.0.1"_kj);
  EXPECT_EQ(wait(apply(session.cluster)), "this boot"_kj);
  EXPECT_GE(a.model.visits, 1u);  // machined knows its client

  constexpr const char* kText =
      " is not available in maintenance mode: this node has no config yet";
  EXPECT_EQ(failure(machine(session.cluster).rebootRequest().send().ignoreResult()),
            std::string("Unimplemented: Machine.reboot") + kText);
  auto node = session.cluster.nodeRequest().send().getNode();
  EXPECT_EQ(failure(node.logsRequest().send().ignoreResult()),
            std::string("Unimplemented: Node.logs") + kText);
  EXPECT_EQ(failure(node.sensitiveResourcesRequest().send().ignoreResult()),
            std::string("Unimplemented: Node.sensitiveResources") + kText);
  EXPECT_EQ(failure(withRoles(session.cluster, {"os:admin"}).whenResolved()),
            std::string("Unimplemented: Cluster.withRoles") + kText);
  EXPECT_EQ(a.model.reboots, 0u);

  auto request = session.cluster.nodeRequest();
  request.setAddress("10.0.0.2");
  auto text = failure(request.send().ignoreResult());
  EXPECT_NE(text.find("FailedPrecondition: 10.0.0.2 is not an address of this node"),
            std::string::npos)
      << text;
  EXPECT_EQ(b.model.connections, 1u);  // apid's connection for the store
}

// Catches: a moment in which a machine with a config serves a client without a certificate: on an
// existing connection, on one whose handshake started before, and on a new one.
TEST_F(Maintained, ItsEndShutsOutEverybodyWithoutACertificate) {
  startMaintained(a);
  auto never = kj::newPromiseAndFulfiller<void>();
  auto notice = never.promise.fork();
  a.notice = [&]() { return notice.addBranch(); };
  auto up = visit(a);
  auto held = machine(up.cluster);
  EXPECT_EQ(version(held), "node 10.0.0.1"_kj);

  // A TCP connection without data, and one in the middle of its handshake.
  auto late = pki::makeAuthority({});
  auto slow = kj::heap<TlsEndpoint>(
      Credentials{kj::str(authority.pair.certificate), kj::mv(late.certificate), kj::mv(late.key)});
  auto silent = wait(io.provider->getNetwork()
                         .parseAddress("127.0.0.1", a.port)
                         .then([](kj::Own<kj::NetworkAddress>&& address) {
                           auto promise = address->connect();
                           return promise.attach(kj::mv(address));
                         }));
  wait(timer.afterDelay(1 * kj::MILLISECONDS));  // apid has accepted it
  auto visits = a.model.visits, versions = a.model.versions;

  a.certify(authority);
  wait(a.identity.maintenanceEnded());
  auto text = failure(held.versionRequest().send().ignoreResult());
  EXPECT_EQ(text, "Unauthenticated: this node has a config now; connect with a client certificate");
  text = failure(apply(up.cluster));
  EXPECT_NE(text.find("Unauthenticated: "), std::string::npos) << text;
  ::testing::internal::CaptureStderr();
  auto stream = wait(slow->connect(kj::mv(silent), "10.0.0.1"));  // started in time
  capnp::TwoPartyClient overtaken(*stream);
  auto cluster = overtaken.bootstrap().castAs<rpc::Cluster>();
  EXPECT_EQ(kindOf(failureOf(machine(cluster).versionRequest().send().ignoreResult())),
            ErrorKind::kUnavailable);
  auto lines = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("this node has a config now; connect with a client certificate"),
            std::string::npos)
      << lines;
  EXPECT_NE(kj::runCatchingExceptions([&] { version(machine(visit(a).cluster)); }), nullptr);
  EXPECT_EQ(a.model.visits, visits);
  EXPECT_EQ(a.model.versions, versions);
  EXPECT_EQ(a.model.applies, 0u);
  EXPECT_TRUE(up.connection->alive());

  never.fulfiller->fulfill();
  wait(up.connection->onDisconnect());
  EXPECT_EQ(version(machine(connectAs(a, {"os:reader"}).cluster)), "node 10.0.0.1"_kj);
}

// Catches: the answer to the apply that ends maintenance mode, cut off by this end.
TEST_F(Maintained, AnswersThatAreUnderWayGetOut) {
  startMaintained(a);
  auto paf = kj::newPromiseAndFulfiller<void>();
  a.model.applyGate = paf.promise.fork();
  auto gone = kj::newPromiseAndFulfiller<void>();
  auto notice = gone.promise.fork();
  a.notice = [&]() { return notice.addBranch(); };
  auto session = visit(a);
  auto call = apply(session.cluster).eagerlyEvaluate(nullptr);
  while (a.model.applies == 0) wait(timer.afterDelay(1 * kj::MILLISECONDS));
  a.certify(authority);
  wait(a.identity.maintenanceEnded());
  paf.fulfiller->fulfill();
  EXPECT_EQ(wait(kj::mv(call)), "this boot"_kj);
  gone.fulfiller->fulfill();
  wait(session.connection->onDisconnect());
}

// Catches: maintenance mode that stays because the following certificates are unusable or cannot be
// made.
TEST_F(Maintained, EndsAlsoWithoutUsableCertificates) {
  startMaintained(a);
  auto broken = kj::heap<capnp::MallocMessageBuilder>();
  broken->initRoot<rpc::ApiCertificateSpec>().setCa("no certificate"_kj.asBytes());
  auto session = visit(a);
  version(machine(session.cluster));
  a.publish(kj::mv(broken));
  wait(a.identity.maintenanceEnded());
  wait(session.connection->onDisconnect());
  EXPECT_NE(kj::runCatchingExceptions([&] { version(machine(visit(a).cluster)); }), nullptr);

  start(b);  // this node has no certificate at all
  b.maintain(authority);
  while (!b.identity.inMaintenance()) wait(timer.afterDelay(1 * kj::MILLISECONDS));
  auto other = visit(b);
  version(machine(other.cluster));
  b.withdraw();
  wait(b.identity.maintenanceEnded());
  wait(other.connection->onDisconnect());
}

}  // namespace
}  // namespace talos::apid
