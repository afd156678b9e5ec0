// Servers that are verified by the caller, or accepted without a valid certificate.
#include "common/tls/tls-custom-verify.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/tls/tls.h"

namespace talos {
namespace {

const auto kVerifiedAt = kj::systemPreciseCalendarClock().now();

struct CustomVerify : testing::Test {
  ~CustomVerify() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  pki::CertificateAndKey stranger = pki::makeAuthority({.organization = "talos"});

  static pki::CertificateAndKey leaf(const pki::CertificateAndKey& by, pki::LeafOptions options) {
    options.addresses = kj::arr(kj::str("10.5.0.5"));
    return pki::issue(by.certificate, by.key, kj::mv(options));
  }
  pki::CertificateAndKey own() {
    auto key = pki::makeKey(pki::KeyType::kEd25519);
    auto certificate = pki::selfSign(key, {.commonName = "worker"});
    return {kj::mv(certificate), kj::mv(key)};
  }
  kj::Own<TlsEndpoint> end(const pki::CertificateAndKey& pair) {
    return kj::heap<TlsEndpoint>(
        Credentials{kj::str(authority.certificate), kj::str(pair.certificate), pair.key.clone()});
  }
  // Returns why the server is not verified; "-" if it is; "refused: ..." if it is not accepted at
  // all.
  kj::String connectTolerant(const pki::CertificateAndKey& server,
                             kj::StringPtr name = "10.5.0.5") {
    auto serving = end(server), dialling = end(leaf(authority, {.server = false}));
    auto pipe = io.provider->newTwoWayPipe();
    kj::String serverError;
    auto accepting =
        serving->accept(kj::mv(pipe.ends[0]), kj::str("x"))
            .then([](auto&&) {}, [&](kj::Exception&& e) { serverError = messageOf(e); })
            .eagerlyEvaluate(nullptr);
    kj::String result;
    auto failure = kj::runCatchingExceptions([&] {
      auto reached = dialling->connectTolerant(kj::mv(pipe.ends[1]), name).wait(io.waitScope);
      result = kj::mv(reached.verificationError).orDefault(kj::str("-"));
      accepting.wait(io.waitScope);
    });
    KJ_IF_MAYBE (e, failure) return kj::str("refused: ", messageOf(*e));
    EXPECT_EQ(serverError, "") << "the server verifies its client as always";
    return result;
  }
};

// Catches: a joining node that cannot be called; any other certificate that passes too.
TEST_F(CustomVerify, OnlySelfSignedAndExpiredOnesPassUnverified) {
  EXPECT_EQ(connectTolerant(leaf(authority, {.client = false})), "-");
  EXPECT_EQ(connectTolerant(own()), "self-signed certificate");
  EXPECT_EQ(connectTolerant(leaf(
                authority, {.lifetime = 1 * kj::HOURS, .notBefore = kVerifiedAt - 2 * kj::HOURS})),
            "certificate has expired");
  EXPECT_TRUE(connectTolerant(leaf(stranger, {})).startsWith("refused: "));
  EXPECT_TRUE(connectTolerant(leaf(authority, {}), "10.5.0.6").startsWith("refused: "));
  EXPECT_TRUE(connectTolerant(leaf(authority, {.lifetime = 1 * kj::HOURS,
                                               .notBefore = kVerifiedAt - 2 * kj::HOURS}),
                              "10.5.0.6")
                  .startsWith("refused: "))
      << "expired, and another machine's";
  EXPECT_TRUE(connectTolerant(leaf(authority, {.notBefore = kVerifiedAt + 2 * kj::HOURS}))
                  .startsWith("refused: "));
}

// Catches: a tolerance that leaks from one connection into the endpoint's ordinary ones.
TEST_F(CustomVerify, OrdinaryConnectionsGoOnVerifying) {
  auto serving = end(own()), dialling = end(leaf(authority, {.server = false}));
  for (bool first : {true, false}) {
    auto pipe = io.provider->newTwoWayPipe();
    auto accepting = serving->accept(kj::mv(pipe.ends[0]), kj::str("x"))
                         .then([](auto&&) {}, [](kj::Exception&&) {})
                         .eagerlyEvaluate(nullptr);
    if (first) {
      dialling->connectTolerant(kj::mv(pipe.ends[1]), "10.5.0.5").wait(io.waitScope);
    } else {
      auto failure = kj::runCatchingExceptions(
          [&] { dialling->connect(kj::mv(pipe.ends[1]), "10.5.0.5").wait(io.waitScope); });
      EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kUnauthenticated);
    }
  }
}

// Catches: a verifier that gets the leaf only, whose result is ignored, or that is called too late.
TEST_F(CustomVerify, TheVerifierGetsTheWholeChain) {
  auto server = leaf(authority, {.client = false});
  auto chain = kj::str(server.certificate, authority.certificate);
  TlsEndpoint serving;
  serving.replaceAnonymous(chain, server.key);
  for (bool good : {true, false}) {
    auto pipe = io.provider->newTwoWayPipe();
    auto accepting = serving.accept(kj::mv(pipe.ends[0]), kj::str("x"))
                         .then([](auto&&) {}, [](kj::Exception&&) {})
                         .eagerlyEvaluate(nullptr);
    auto verify = [&](kj::ArrayPtr<const kj::String> sent) -> kj::Maybe<kj::String> {
      KJ_ASSERT(sent.size() == 2);
      EXPECT_TRUE(pki::sameCertificate(sent[0], server.certificate));
      EXPECT_TRUE(pki::sameCertificate(sent[1], authority.certificate));
      if (good) return nullptr;
      return kj::str("not that one");
    };
    auto failure = kj::runCatchingExceptions(
        [&] { connectWithVerifier(kj::mv(pipe.ends[1]), verify).wait(io.waitScope); });
    EXPECT_EQ(failure == nullptr, good);
    KJ_IF_MAYBE (e, failure) {
      EXPECT_EQ(kindOf(*e), ErrorKind::kUnauthenticated);
      EXPECT_EQ(messageOf(*e), "not that one");
    }
  }
}

// Catches: a client's certificate that passes for a server, and a validity that is checked without
// a time.
TEST_F(CustomVerify, OnlyServerCertificatesOfTheAuthorityPass) {
  auto error = [&](const pki::CertificateAndKey& pair, kj::Maybe<kj::Date> at) {
    return pki::serverCertificateError(pair.certificate, authority.certificate, at)
        .orDefault(kj::str("-"));
  };
  auto day = leaf(authority, {.client = false});
  EXPECT_EQ(error(day, kVerifiedAt), "-");
  EXPECT_EQ(error(day, kVerifiedAt + 25 * kj::HOURS), "certificate has expired");
  EXPECT_EQ(error(day, kVerifiedAt - 1 * kj::HOURS), "certificate is not yet valid");
  EXPECT_EQ(error(day, nullptr), "-");
  EXPECT_NE(error(leaf(authority, {.server = false}), kVerifiedAt), "-");
  EXPECT_NE(error(leaf(stranger, {}), nullptr), "-");
  EXPECT_NE(error(own(), nullptr), "-");
  EXPECT_NE(pki::serverCertificateError("no PEM", authority.certificate, kVerifiedAt)
                .orDefault(kj::str()),
            "");
}

TEST_F(CustomVerify, TheHashIsThatOfTheFingerprint) {
  auto hash = pki::authorityHash(authority.certificate);
  EXPECT_TRUE(hash.startsWith("sha256:"));
  EXPECT_EQ(hash.size(), 7u + 64u);
  EXPECT_NE(hash, pki::authorityHash(stranger.certificate));
}

}  // namespace
}  // namespace talos
