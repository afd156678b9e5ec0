// The gRPC API on apid's port: roles, audit, maintenance mode and limits are those of our API.
#include "apid/gate/test-apid.h"
#include "common/grpc/grpc-client.h"
#include "common/grpc/test-h2.h"

namespace talos::apid {
namespace {

struct GateGrpc : testing::ApidTest {
  ~GateGrpc() noexcept override {}

  struct Caller {
    kj::Own<TlsEndpoint> tls;
    kj::Own<grpc::Client> client;
  };
  kj::Own<grpc::Client> dial(testing::TestNode& node, TlsEndpoint& tls) {
    auto dial = [this, &node, &tls]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
      auto address = co_await io.provider->getNetwork().parseAddress("127.0.0.1", node.port);
      co_return co_await tls.connectWithAlpn("h2", co_await address->connect(), node.address);
    };
    return kj::heap<grpc::Client>(
        timer, kj::str("apid"), kj::mv(dial),
        grpc::ConnectionOptions{.scheme = "https", .authority = kj::str(node.address, ":50000")});
  }
  Caller dial(testing::TestNode& node, Credentials credentials) {
    auto tls = kj::heap<TlsEndpoint>(kj::mv(credentials));
    auto client = dial(node, *tls);
    return {kj::mv(tls), kj::mv(client)};
  }
  Caller dialAs(testing::TestNode& node, std::initializer_list<kj::StringPtr> organizations) {
    return dial(node, authority.client("someone",
                                       kj::arrayPtr(organizations.begin(), organizations.size())));
  }
  std::string ask(Caller& caller, kj::StringPtr method, kj::StringPtr node = "") {
    return ask(*caller.client, method, node);
  }
  // Returns the bytes of the answer, or "Kind: message".
  std::string ask(grpc::Client& client, kj::StringPtr method, kj::StringPtr node = "") {
    grpc::Metadata metadata[] = {{"node", node}};
    auto path = kj::str("/machine.MachineService/", method);
    auto sent = kj::arrayPtr(metadata, node.size() == 0 ? 0 : 1);
    std::string outcome;
    wait(client.unary(path, sent, 10 * kj::SECONDS, nullptr)
             .then(
                 [&](kj::Array<kj::byte> bytes) {
                   outcome = std::string(bytes.asChars().begin(), bytes.size());
                 },
                 [&](kj::Exception&& e) {
                   outcome = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
                 }));
    return outcome;
  }
  static void expectIn(const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
};

// Catches: a protocol that locks out the other; a call that reaches the wrong node.
TEST_F(GateGrpc, BothProtocolsOnOnePort) {
  start(a);
  start(b);
  auto first = connectAs(a, {"os:reader"});
  auto second = dialAs(a, {"os:reader"});
  expectIn(ask(second, "Version"), "node 10.0.0.1");
  EXPECT_EQ(version(machine(first.cluster)), "node 10.0.0.1"_kj);
  expectIn(ask(second, "Version", "10.0.0.2"), "node 10.0.0.2");
  EXPECT_EQ(version(machine(first.cluster, "10.0.0.2")), "node 10.0.0.2"_kj);
}

// Catches: a way around roles and the audit log.
TEST_F(GateGrpc, RolesAndAuditAreThoseOfOurApi) {
  start(a);
  start(b);
  auto reader = dialAs(a, {"os:reader"});
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ask(reader, "Reboot"),
            "PermissionDenied: not authorized: Machine.reboot needs the role os:operator; this "
            "caller has os:reader");
  expectIn(::testing::internal::GetCapturedStderr(), "call denied");
  EXPECT_EQ(a.model.reboots, 0u);
  auto nobody = dialAs(a, {});
  expectIn(ask(nobody, "Version"), "PermissionDenied: ");
  auto apid = dialAs(a, {"os:impersonator"});
  expectIn(ask(apid, "Version"), "PermissionDenied: ");
  auto operates = dialAs(a, {"os:operator"});
  ask(operates, "Reboot");
  EXPECT_EQ(a.model.reboots, 1u);
  ASSERT_EQ(a.model.audited.size(), 2u);
  EXPECT_EQ(a.model.audited[1], "someone@127.0.0.1 [os:operator] Machine.reboot(): ok"_kj);
  ask(operates, "Reboot", "10.0.0.2");
  EXPECT_EQ(b.model.reboots, 1u);
  ASSERT_EQ(b.model.audited.size(), 1u);
  EXPECT_EQ(b.model.audited[0],
            "someone@127.0.0.1 via 127.0.0.1 [os:operator] Machine.reboot(): ok"_kj);
}

// Catches: a client without a certificate that is admitted, that gets more of a machine in
// maintenance than through our API, or stays connected after maintenance mode.
TEST_F(GateGrpc, CertificatesAndMaintenanceAreThoseOfOurApi) {
  a.notice = [] { return kj::Promise<void>(kj::NEVER_DONE); };  // the guest stays connected
  a.maintain(authority);
  a.startMachined();
  a.startApid();
  wait(a.identity.ready());
  auto visitor = [&] {
    auto own = pki::makeAuthority({});
    return Credentials{kj::str(authority.pair.certificate), kj::mv(own.certificate),
                       kj::mv(own.key)};
  };
  auto guest = dial(a, visitor());
  expectIn(ask(guest, "Version"), "node 10.0.0.1");
  expectIn(ask(guest, "Reboot"), "Unimplemented: Machine.reboot is not available in maintenance");
  a.certify(authority);
  expectIn(ask(guest, "Version"), "this node has a config now; connect with a client certificate");
  auto late = dial(a, visitor());
  expectIn(ask(late, "Version"), "alert unknown ca");
  auto reader = dialAs(a, {"os:reader"});
  expectIn(ask(reader, "Version"), "node 10.0.0.1");
}

// Catches: an exiting apid that does not tell gRPC clients to reconnect elsewhere.
TEST_F(GateGrpc, ClientsGetAGoAwayBeforeTheExit) {
  grpcapi::GrpcApi grpcApi;
  auto protocol = grpcapi::grpcProtocol(timer, grpcApi);
  auto pipe = kj::newTwoWayPipe();
  auto stop = kj::newPromiseAndFulfiller<void>();
  auto serving = protocol.serve(kj::mv(pipe.ends[0]), rpc::Cluster::Client(nullptr),
                                kj::mv(stop.promise), {}, {});
  grpc::testing::RawH2Client client(kj::mv(pipe.ends[1]));
  wait(client.send(grpc::testing::hello()));
  io.waitScope.poll();
  EXPECT_EQ(client.goaway(), -1);
  stop.fulfiller->fulfill();
  io.waitScope.poll();
  EXPECT_EQ(client.goaway(), NGHTTP2_NO_ERROR);
}

// Catches: a client that uses both protocols and so gets twice its share of apid's memory;
// cancelled calls that still count.
TEST_F(GateGrpc, BothProtocolsHaveOneAccount) {
  start(a);
  TlsEndpoint tls(authority.client("someone", kj::arr("os:reader"_kj)));
  struct Many {
    kj::Own<grpc::Client> client;
    kj::Vector<kj::Own<grpc::Call>> calls;
  };
  kj::Vector<Many> all;  // 2000 calls of 16 KiB, each waiting for its request
  for (unsigned i = 0; i < 4; ++i) {
    all.add(Many{dial(a, tls), {}});
    for (unsigned k = 0; k < 500; ++k) {
      all.back().calls.add(
          wait(all.back().client->open("/machine.MachineService/Version", nullptr, nullptr)));
    }
    expectIn(ask(*all.back().client, "Version"), "node 10.0.0.1");
  }
  auto more = dial(a, tls);
  kj::Vector<kj::Own<grpc::Call>> refused;
  for (unsigned k = 0; k < 100; ++k) {
    refused.add(wait(more->open("/machine.MachineService/Version", nullptr, nullptr)));
  }
  expectIn(ask(*more, "Version"), "ResourceExhausted: the calls of this client use more than ");
  auto first = [&] {
    auto connection =
        wait(connectTls(*io.lowLevelProvider, timer, tls, "127.0.0.1", a.port, a.address));
    return messageOf(failureOf(machine(connection->bootstrap().castAs<rpc::Cluster>())
                                   .versionRequest()
                                   .send()
                                   .ignoreResult()));
  };
  expectIn(first().cStr(), "the calls of this client use more than ");
  all.clear();
  while (first() != "nothing failed") wait(timer.afterDelay(1 * kj::MILLISECONDS));
}

// Catches: readers who together use up the memory of apid, and lock out the administrator.
TEST_F(GateGrpc, ReadersLeaveAReserveToTheAdministrator) {
  using namespace grpc::testing;
  start(a);
  auto begun = [](int32_t stream) {
    return headersFrame(stream, request("/machine.MachineService/Version")) +
           dataFrame(stream, '\0' + bigEndian(7'900'000, 4) + "x", 0);
  };
  kj::Vector<kj::Own<TlsEndpoint>> readers;
  kj::Vector<kj::Own<RawH2Client>> connections;
  for (unsigned i = 0; i < 6; ++i) {  // 32 MiB each, announced over two connections
    if (i % 2 == 0) {
      readers.add(kj::heap<TlsEndpoint>(authority.client("evil", kj::arr("os:reader"_kj))));
    }
    auto address = wait(io.provider->getNetwork().parseAddress("127.0.0.1", a.port));
    auto stream = wait(readers.back()->connectWithAlpn("h2", wait(address->connect()), a.address));
    connections.add(kj::heap<RawH2Client>(kj::mv(stream)));
    wait(connections.back()->send(hello() + begun(1) + begun(3)));
  }
  grpcapi::WireWriter message;
  message.text(1, kj::str(kj::repeat('x', 5'000'000)));
  auto outcome = [&](kj::StringPtr role) {
    auto caller = dial(a, authority.client("someone", kj::arr(role)));
    std::string text;
    wait(caller.client
             ->unary("/machine.MachineService/Version", nullptr, 10 * kj::SECONDS,
                     kj::heapArray<const kj::byte>(message.written()))
             .then(
                 [&](kj::Array<kj::byte> bytes) {
                   text = std::string(bytes.asChars().begin(), bytes.size());
                 },
                 [&](kj::Exception&& e) { text = messageOf(e).cStr(); }));
    return text;
  };
  while (outcome("os:reader").find("the calls of all clients use more than 75497472 bytes") ==
         std::string::npos) {
    wait(timer.afterDelay(1 * kj::MILLISECONDS));
  }
  expectIn(outcome("os:operator"), "node 10.0.0.1");
  expectIn(outcome("os:admin"), "node 10.0.0.1");
}

}  // namespace
}  // namespace talos::apid
