#include "etcd-supervisor/control/member-proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/tls/tls.h"
#include "common/wire/rpc-server.h"

namespace talos::supervisor {
namespace {

using ::testing::HasSubstr;

struct MemberProxyTest : public testing::Test {
  ~MemberProxyTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "etcd"}),
                         stranger = pki::makeAuthority({.organization = "etcd"});
  kj::Vector<kj::Own<TlsEndpoint>> endpoints;
  kj::Vector<kj::Promise<void>> servers;
  uint16_t peerPort = freePort(), proxyPort = freePort();
  MemberProxy proxy{io, [this] { return kj::str(authority.certificate); }, proxyPort, peerPort};

  static uint16_t freePort() {
    auto listening = listenTcp("127.0.0.1", 0);
    sockaddr_in name{};
    socklen_t size = sizeof name;
    KJ_SYSCALL(getsockname(listening, reinterpret_cast<sockaddr*>(&name), &size));
    return ntohs(name.sin_port);
  }

  // Serves TLS at an address of loopback with a certificate of this CA.
  void member(kj::StringPtr address, const pki::CertificateAndKey& ca, kj::StringPtr name,
              bool server = true) {
    auto pair = pki::issue(ca.certificate, ca.key,
                           {.commonName = name,
                            .dnsNames = kj::arr(kj::str(name)),
                            .addresses = kj::arr(kj::str("10.5.0.3")),
                            .server = server,
                            .client = true});
    auto& endpoint = *endpoints.add(kj::heap<TlsEndpoint>());
    endpoint.replaceAnonymous(pair.certificate, pair.key);
    auto receiver = io.lowLevelProvider->wrapListenSocketFd(listenTcp(address, peerPort));
    servers.add(serve(endpoint, kj::mv(receiver)).eagerlyEvaluate([](kj::Exception&&) {}));
  }
  static kj::Promise<void> serve(TlsEndpoint& endpoint, kj::Own<kj::ConnectionReceiver> receiver) {
    for (;;) {
      auto raw = co_await receiver->accept();
      kj::Maybe<kj::Own<kj::AsyncIoStream>> up;
      co_await endpoint.accept(kj::mv(raw), kj::str("test"))
          .then([&](TlsEndpoint::Accepted&& accepted) { up = kj::mv(accepted.stream); },
                [](kj::Exception&&) {});
      KJ_IF_MAYBE (stream, up) {
        co_await (*stream)->write("hello", 5).catch_([](kj::Exception&&) {});
      }
    }
  }

  // Returns what a client of the proxy gets for this request until the end of the connection.
  kj::String ask(kj::StringPtr request) {
    auto address =
        io.provider->getNetwork().parseAddress(kj::str("127.0.0.1:", proxyPort)).wait(io.waitScope);
    auto stream = address->connect().wait(io.waitScope);
    stream->write(request.begin(), request.size()).wait(io.waitScope);
    kj::byte answer[256];
    size_t size = 0;
    auto read = stream->tryRead(answer, 12, sizeof answer).then([&](size_t got) { size = got; });
    kj::Maybe<kj::Exception> end;
    read.catch_([&](kj::Exception&& e) { end = kj::mv(e); }).wait(io.waitScope);
    return kj::heapString(reinterpret_cast<char*>(answer), size);
  }
};

// Catches: an attacker, or a program with a certificate for clients alone, that is taken for a
// member; a search that fails because one address is silent.
TEST_F(MemberProxyTest, FindsTheMembersOfTheClusterAlone) {
  member("127.0.5.1", authority, "m-2");
  member("127.0.5.2", stranger, "m-3");
  member("127.0.5.3", authority, "client", false);
  kj::Vector<kj::String> places;
  for (auto i : kj::range(1, 80)) places.add(kj::str("127.0.5.", i));
  auto found = proxy.find(kj::mv(places)).wait(io.waitScope);
  ASSERT_EQ(1u, found.size());
  EXPECT_EQ("127.0.5.1", found[0].address);
  EXPECT_EQ("m-2", joined(found[0].names));
  EXPECT_EQ("10.5.0.3", joined(found[0].addresses));
}

// Catches: a connection for a former address that leads nowhere, or always to the same one of two
// nodes.
TEST_F(MemberProxyTest, LeadsToTheAddressesOfTheRouteInTurn) {
  member("127.0.6.2", authority, "m-2");
  auto request = kj::str("CONNECT 10.5.0.3:", peerPort, " HTTP/1.1\r\nHost: x\r\n\r\n");
  MemberRoute route{kj::str("10.5.0.3"), {}};
  route.addresses.add(kj::str("127.0.6.1"));  // nothing listens there
  route.addresses.add(kj::str("127.0.6.2"));
  kj::Vector<MemberRoute> routes;
  routes.add(kj::mv(route));
  proxy.lead(kj::mv(routes));
  EXPECT_EQ("", ask(request));
  EXPECT_THAT(ask(request).cStr(), HasSubstr("HTTP/1.1 200 "));
  EXPECT_EQ("", ask(request));
  proxy.lead({});
  EXPECT_THAT(ask(kj::str("CONNECT 127.0.6.2:", peerPort, " HTTP/1.1\r\n\r\n")).cStr(),
              HasSubstr("HTTP/1.1 200 "));
}

// Catches: a way to other ports of other hosts.
TEST_F(MemberProxyTest, LeadsToThePortOfMembersAlone) {
  proxy.lead({});
  EXPECT_EQ("", ask("CONNECT 127.0.0.1:22 HTTP/1.1\r\n\r\n"));
  EXPECT_EQ("", ask(kj::str("GET http://127.0.0.1:", peerPort, "/ HTTP/1.1\r\n\r\n")));
  EXPECT_EQ("", ask(kj::str("CONNECT ", kj::repeat('a', 5000))));
}

}  // namespace
}  // namespace talos::supervisor
