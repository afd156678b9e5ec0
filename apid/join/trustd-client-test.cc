// The client of trustd over real TLS, with a server whose answers a test sets.
#include "apid/join/trustd-client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/printing.h"
#include "common/testing/test-port.h"
#include "common/tls/held-message.h"
#include "common/tls/public-key.h"
#include "common/tls/signature.h"
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
  kj::Vector<kj::String> received;   // requests and tokens
  kj::Vector<kj::String> addresses;  // addresses of the node
  kj::Maybe<Identity> held;          // the node's identity
  kj::Vector<kj::String> shown;      // by calls: messages that its certificate's key signed
  bool proves = true, refusesProofs = false;
  kj::String silentFor;                   // caller that gets no proof
  kj::String translated;                  // caller that is seen at another address
  kj::String own = kj::str("127.0.0.1");  // further address of trustd
  TlsEndpoint endpoint;
  uint16_t port = 0;
  kj::Promise<void> serving = nullptr;

  struct Server final : rpc::Trust::Server {
    TrustdClient& test;
    kj::String caller;
    Server(TrustdClient& test, kj::StringPtr caller) : test(test), caller(kj::str(caller)) {}
    kj::Promise<void> certificate(CertificateContext context) override {
      auto params = context.getParams();
      test.see(params.getHeld(), messageToRenew(kj::str(params.getRequest().asChars())));
      test.received.add(kj::str(params.getRequest().asChars(), " ", params.getToken()));
      if (test.refusesProofs && params.getProofs().size() > 0) {
        fail(ErrorKind::kPermissionDenied, "not proved");
      }
      for (auto proof : params.getProofs()) test.received.add(kj::str(proof.asChars()));
      context.getResults().setCa("an authority"_kj.asBytes());
      context.getResults().setCertificate(test.answer.asBytes());
      return kj::READY_NOW;
    }
    kj::Promise<void> prove(ProveContext context) override {
      if (!test.proves) return rpc::Trust::Server::prove(context);
      EXPECT_EQ(kj::str(context.getParams().getToken()), kWorkerToken);
      test.see(context.getParams().getHeld(), messageToProve());
      if (caller == test.silentFor) return kj::NEVER_DONE;
      auto results = context.getResults();
      results.setAddress(caller == test.translated ? "192.0.2.77"_kj : caller);
      results.setProof(kj::str("proof of ", caller).asBytes());
      results.initServers(1).set(0, test.own);
      return kj::READY_NOW;
    }
  };

  void see(rpc::Trust::Held::Reader given, kj::StringPtr message) {
    if (given.getCertificate().size() == 0) return;
    auto certificate = kj::str(given.getCertificate().asChars());
    pki::VerifyKey key(pki::publicKeyOfCertificate(certificate));
    bool good = key.verifies(message.asBytes(), given.getSignature());
    shown.add(
        kj::str(good ? "" : "not ", message.slice(0, KJ_ASSERT_NONNULL(message.findFirst('\n')))));
  }
  // Sets the certificate of the server.
  void show(kj::StringPtr address) {
    auto pair =
        pki::issue(authority.certificate, authority.key,
                   {.addresses = kj::arr(kj::str(address)), .server = true, .client = false});
    endpoint.replaceAnonymous(pair.certificate, pair.key);
  }
  void SetUp() override {
    show("127.0.0.1");
    auto listening = listenTcp("127.0.0.1", 0, 16);
    port = portOf(listening);
    serving = serveTls(*io.lowLevelProvider, timer, kj::mv(listening), endpoint,
                       [this](const Peer& peer) {
                         return SessionParams{.bootstrap = rpc::Trust::Client(
                                                  kj::heap<Server>(*this, peer.address))};
                       },
                       {})
                  .eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(FATAL, e); });
  }
  kj::Promise<TrustdAnswer> ask(kj::StringPtr pinned) {
    TrustdRequest request{.server = Ip::require("127.0.0.1"),
                          .pin = Pin{kj::str(pinned), kj::str(), nullptr},
                          .token = kWorkerToken,
                          .held = held.map([](const Identity& it) { return it.clone(); }),
                          .addresses = KJ_MAP(a, addresses)->Ip{return Ip::require(a);
  }
  , .certificateRequest = [](const Ip& local, kj::ArrayPtr<const Ip> proven) {
    auto text = kj::str("for ", local.toString());
    for (auto& address : proven) text = kj::str(text, " and ", address.toString());
    return text;
  }
};
return callTrustd(*io.lowLevelProvider, timer, kj::mv(request), port);
}  // namespace
template <typename T>
T wait(kj::Promise<T> promise) {
  return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
}
kj::Exception failureOf(kj::Promise<TrustdAnswer> promise) {
  return KJ_REQUIRE_NONNULL(kj::runCatchingExceptions([&] { wait(kj::mv(promise)); }));
}
};  // namespace talos::apid

TEST_F(TrustdClient, AsksForTheAddressThatItCallsFrom) {
  auto got = wait(ask(authority.certificate));
  EXPECT_EQ(got.authority, "an authority");
  EXPECT_EQ(got.certificate, "a certificate");
  EXPECT_EQ(kj::strArray(received, "; "), kj::str("for 127.0.0.1 ", kWorkerToken));
}

// Catches: a node with several addresses whose certificate has one; a node that requests addresses
// that it cannot prove, and so gets no certificate.
TEST_F(TrustdClient, ProvesItsOtherAddresses) {
  for (auto text : {"127.0.0.1", "127.0.0.2", "fd00::7", "192.0.2.1"}) addresses.add(kj::str(text));
  wait(ask(authority.certificate));
  EXPECT_EQ(kj::strArray(received, "; "),
            kj::str("for 127.0.0.1 and 127.0.0.1 and 127.0.0.2 ", kWorkerToken,
                    "; proof of 127.0.0.1; proof of 127.0.0.2"));
}

// Catches: a node that shows its certificate to only one of the methods, so that a node with
// several addresses cannot renew it; a signature over another message than the call's.
TEST_F(TrustdClient, ShowsTheCertificateThatIsRenewed) {
  auto pair = pki::issue(authority.certificate, authority.key, {});
  held = Identity{kj::str(authority.certificate), kj::str(pair.certificate, authority.certificate),
                  kj::mv(pair.key)};
  for (auto text : {"127.0.0.1", "127.0.0.2"}) addresses.add(kj::str(text));
  wait(ask(authority.certificate));
  EXPECT_EQ(kj::strArray(shown, "; "),
            "talos trustd prove; talos trustd prove; talos trustd prove; talos trustd certificate");
}

// Catches: a node with an unreadable key that gets no certificate for this reason.
TEST_F(TrustdClient, AKeyThatSignsNothingIsNotShown) {
  held = Identity{kj::str(), kj::str("no certificate"), pki::Pem(kj::str("no key"))};
  EXPECT_EQ(wait(ask(authority.certificate)).certificate, "a certificate");
  EXPECT_EQ(shown.size(), 0u);
}

// Catches: an address without an answer from trustd that keeps the others from being signed.
TEST_F(TrustdClient, AnAddressWithoutAnAnswerIsLeftOut) {
  for (auto text : {"127.0.0.1", "127.0.0.2", "127.0.0.3"}) addresses.add(kj::str(text));
  silentFor = kj::str("127.0.0.2");
  auto began = timer.now();
  wait(ask(authority.certificate));
  EXPECT_EQ(received[0], kj::str("for 127.0.0.1 and 127.0.0.1 and 127.0.0.3 ", kWorkerToken));
  EXPECT_LT((timer.now() - began) / kj::SECONDS, 8);
}

// Catches: a node that requests its address from before address translation, which trustd refuses.
TEST_F(TrustdClient, AnAddressThatTrustdDoesNotSeeIsLeftOut) {
  for (auto text : {"127.0.0.1", "127.0.0.2"}) addresses.add(kj::str(text));
  translated = kj::str("127.0.0.2");
  wait(ask(authority.certificate));
  EXPECT_EQ(received[0], kj::str("for 127.0.0.1 and 127.0.0.1 ", kWorkerToken));
}

// Catches: a trustd of an earlier version that signs nothing for a later worker.
TEST_F(TrustdClient, ATrustdWithoutProofsSignsOneAddress) {
  for (auto text : {"127.0.0.1", "127.0.0.2"}) addresses.add(kj::str(text));
  proves = false;
  wait(ask(authority.certificate));
  EXPECT_EQ(kj::strArray(received, "; "), kj::str("for 127.0.0.1 ", kWorkerToken));
}

// Catches: a worker without a certificate because a load balancer passes its proofs to another
// trustd.
TEST_F(TrustdClient, ARefusalOfProofsLeavesOneAddress) {
  for (auto text : {"127.0.0.1", "127.0.0.2"}) addresses.add(kj::str(text));
  refusesProofs = true;
  EXPECT_EQ(wait(ask(authority.certificate)).certificate, "a certificate");
  EXPECT_EQ(received.back(), kj::str("for 127.0.0.1 ", kWorkerToken));
}

// Catches: a token that is sent to a host that took over the address.
TEST_F(TrustdClient, AnotherServerGetsNoToken) {
  auto e = failureOf(ask(other.certificate));
  EXPECT_TRUE(kindOf(e) == ErrorKind::kUnauthenticated);
  EXPECT_THAT(messageOf(e).cStr(), HasSubstr("the identity of trustd is not verified: "));
  EXPECT_EQ(received.size(), 0u);
}

// Catches: a worker at the address of a control-plane node that collects the join tokens of others,
// by either method: it has a server certificate of the CA, as trustd signs it for each worker.
TEST_F(TrustdClient, AWorkerThatPosesAsTrustdGetsNoToken) {
  show("10.0.0.9");
  auto pair = pki::issue(authority.certificate, authority.key, {});
  held = Identity{kj::str(authority.certificate), kj::mv(pair.certificate), kj::mv(pair.key)};
  for (auto several : {false, true}) {
    if (several) {
      for (auto text : {"127.0.0.1", "127.0.0.2"}) addresses.add(kj::str(text));
    }
    auto e = failureOf(ask(authority.certificate));
    EXPECT_TRUE(kindOf(e) == ErrorKind::kUnauthenticated);
    EXPECT_THAT(messageOf(e).cStr(), HasSubstr("is not that of a control-plane node"));
    EXPECT_EQ(received.size() + shown.size(), 0u);
  }
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
