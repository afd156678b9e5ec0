// The client of trustd over real TLS, with a server whose answers a test sets.
#include "apid/join/trustd-client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/printing.h"
#include "common/testing/test-port.h"
#include "common/wire/rpc-server.h"
#include "rpc/trust.capnp.h"

namespace talos::apid {
namespace {

using ::testing::HasSubstr;

constexpr kj::StringPtr kWorkerToken = "abcdef.0123456789abcdef"_kj;

struct TrustdClient : ::testing::Test {
  ~TrustdClient() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  pki::CertificateAndKey other = pki::makeAuthority({.organization = "talos"});
  kj::String answer = kj::str("a certificate");
  kj::Vector<kj::String> received;  // requests and tokens
  TlsEndpoint endpoint;
  uint16_t port = 0;
  kj::Promise<void> serving = nullptr;

  struct Server final : rpc::Trust::Server {
    TrustdClient& test;
    explicit Server(TrustdClient& test) : test(test) {}
    kj::Promise<void> certificate(CertificateContext context) override {
      auto params = context.getParams();
      test.received.add(kj::str(params.getRequest().asChars(), " ", params.getToken()));
      context.getResults().setCa("an authority"_kj.asBytes());
      context.getResults().setCertificate(test.answer.asBytes());
      return kj::READY_NOW;
    }
  };

  void SetUp() override {
    auto pair = pki::issue(authority.certificate, authority.key, {.client = false});
    endpoint.replaceAnonymous(pair.certificate, pair.key);
    auto listening = listenTcp("127.0.0.1", 0, 16);
    port = portOf(listening);
    serving =
        serveTls(*io.lowLevelProvider, timer, kj::mv(listening), endpoint,
                 [this](const Peer&) {
                   return SessionParams{.bootstrap = rpc::Trust::Client(kj::heap<Server>(*this))};
                 },
                 {})
            .eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(FATAL, e); });
  }
  kj::Promise<TrustdAnswer> ask(kj::StringPtr pinned) {
    TrustdRequest request{
        .server = Ip::require("127.0.0.1"),
        .pin = Pin{kj::str(pinned), kj::str(), nullptr},
        .token = kWorkerToken,
        .certificateRequest = [](const Ip& local) { return kj::str("for ", local.toString()); }};
    return callTrustd(*io.lowLevelProvider, timer, kj::mv(request), port);
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  kj::Exception failureOf(kj::Promise<TrustdAnswer> promise) {
    return KJ_REQUIRE_NONNULL(kj::runCatchingExceptions([&] { wait(kj::mv(promise)); }));
  }
};

TEST_F(TrustdClient, AsksForTheAddressThatItCallsFrom) {
  auto got = wait(ask(authority.certificate));
  EXPECT_EQ(got.authority, "an authority");
  EXPECT_EQ(got.certificate, "a certificate");
  EXPECT_EQ(kj::strArray(received, "; "), kj::str("for 127.0.0.1 ", kWorkerToken));
}

// Catches: a token for whoever took the address over.
TEST_F(TrustdClient, AnotherServerGetsNoToken) {
  auto e = failureOf(ask(other.certificate));
  EXPECT_TRUE(kindOf(e) == ErrorKind::kUnauthenticated);
  EXPECT_THAT(messageOf(e).cStr(), HasSubstr("the identity of trustd is not verified: "));
  EXPECT_EQ(received.size(), 0u);
}

// Catches: an answer of any size that is copied, parsed and stored.
TEST_F(TrustdClient, AnAnswerThatIsTooLargeIsRefused) {
  answer = kj::str(kj::repeat('a', (64u << 10) + 1));
  auto e = failureOf(ask(authority.certificate));
  EXPECT_TRUE(kindOf(e) == ErrorKind::kUnauthenticated);
  EXPECT_EQ(messageOf(e), "the certificate of trustd has 65537 bytes, which is too long");
}

TEST_F(TrustdClient, AConnectErrorNamesTheAddress) {
  serving = nullptr;
  auto e = failureOf(ask(authority.certificate));
  EXPECT_TRUE(kindOf(e) == ErrorKind::kUnavailable);
  EXPECT_EQ(messageOf(e), kj::str("127.0.0.1:", port, ": Connection refused"));
}

}  // namespace
}  // namespace talos::apid
