#include "talosctl/client/tls-unverified.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/tls/kj-tls-access.h"
#include "common/tls/tls.h"

namespace talos {
namespace {

class Unverified : public testing::Test {
 public:
  ~Unverified() noexcept override {}

 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "throw-away"});
  pki::CertificateAndKey leaf = pki::issue(authority.certificate, authority.key,
                                           {.dnsNames = kj::arr(kj::str("somewhere-else"))});
  kj::String fingerprint = pki::fingerprint(leaf.certificate);
  kj::String other = pki::fingerprint(authority.certificate);

  kj::Own<kj::TlsContext> context;  // context of the server in the last handshake

  struct Outcome {
    kj::Maybe<UnverifiedStream> client;
    kj::Maybe<kj::Own<kj::AsyncIoStream>> server;
    kj::String clientError;
    ErrorKind kind = ErrorKind::kInternal;
    bool serverFailed = false;
  };

  // Returns a server of a machine without a config, which requests no client certificate.
  kj::Own<kj::TlsContext> server() {
    kj::TlsKeypair pair{kj::TlsPrivateKey(kj::StringPtr(pki::toPkcs8(leaf.key))),
                        kj::TlsCertificate(leaf.certificate)};
    kj::TlsContext::Options options;
    options.useSystemTrustStore = false;
    options.minVersion = kj::TlsVersion::TLS_1_3;
    options.defaultKeypair = pair;
    auto context = kj::heap<kj::TlsContext>(kj::mv(options));
    harden(*context);
    return context;
  }

  Outcome shake(kj::ArrayPtr<const kj::String> fingerprints) {
    context = server();
    auto pipe = io.provider->newTwoWayPipe();
    Outcome out;
    auto accepting = context->wrapServer(kj::mv(pipe.ends[0]))
                         .then([&](kj::Own<kj::AsyncIoStream> s) { out.server = kj::mv(s); },
                               [&](kj::Exception&&) { out.serverFailed = true; });
    auto connecting = connectUnverified(kj::mv(pipe.ends[1]), fingerprints)
                          .then([&](UnverifiedStream s) { out.client = kj::mv(s); },
                                [&](kj::Exception&& e) {
                                  out.clientError = messageOf(e);
                                  out.kind = kindOf(e);
                                });
    auto both = kj::heapArrayBuilder<kj::Promise<void>>(2);
    both.add(kj::mv(accepting));
    both.add(kj::mv(connecting));
    kj::joinPromises(both.finish()).wait(io.waitScope);
    return out;
  }
};

// Catches: a connection that carries nothing, and a fingerprint that is not the leaf's.
TEST_F(Unverified, WithoutAFingerprintTheCallerLearnsIt) {
  auto out = shake(nullptr);
  auto& client = KJ_ASSERT_NONNULL(out.client, out.clientError);
  EXPECT_EQ(client.fingerprint, fingerprint);
  auto writing = client.stream->write("ping", 4);
  char buffer[4];
  KJ_ASSERT_NONNULL(out.server)->read(buffer, 4).wait(io.waitScope);
  writing.wait(io.waitScope);
  EXPECT_EQ(kj::heapString(buffer, 4), "ping");
}

TEST_F(Unverified, AnyOfTheFingerprintsWillDo) {
  auto list = kj::arr(kj::str(other), kj::str(fingerprint));
  auto out = shake(list);
  EXPECT_EQ(KJ_ASSERT_NONNULL(out.client, out.clientError).fingerprint, fingerprint);
}

// Catches: a comparison after the handshake, when the server already considers the client
// satisfied; an error that leaves out one of the two fingerprints.
TEST_F(Unverified, AnotherMachineIsRefusedWithinTheHandshake) {
  auto list = kj::arr(kj::str(other));
  auto out = shake(list);
  EXPECT_TRUE(out.client == nullptr);
  EXPECT_TRUE(out.serverFailed);
  EXPECT_EQ(out.kind, ErrorKind::kUnauthenticated);
  EXPECT_TRUE(containsText(out.clientError, fingerprint)) << out.clientError.cStr();
  EXPECT_TRUE(containsText(out.clientError, other)) << out.clientError.cStr();
}

// Catches: settings of one TLS context that leak into other contexts.
TEST_F(Unverified, OrdinaryConnectionsStillVerify) {
  auto known = shake(nullptr);
  ASSERT_TRUE(known.client != nullptr);
  auto trusted = pki::makeAuthority({.organization = "talos"});
  auto mine = pki::issue(trusted.certificate, trusted.key, {});
  TlsEndpoint ordinary({kj::str(trusted.certificate), kj::mv(mine.certificate), kj::mv(mine.key)});
  auto other = server();
  auto pipe = io.provider->newTwoWayPipe();
  auto accepting = other->wrapServer(kj::mv(pipe.ends[0])).ignoreResult().catch_([](auto&&) {});
  auto failure = kj::runCatchingExceptions(
      [&] { ordinary.connect(kj::mv(pipe.ends[1]), "somewhere-else").wait(io.waitScope); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kUnauthenticated);
}

TEST_F(Unverified, APeerThatSpeaksNoTlsIsSaidToBeSo) {
  auto pipe = io.provider->newTwoWayPipe();
  auto writing = pipe.ends[0]->write("HTTP/1.1 400 Bad Request\r\n\r\n", 28);
  auto failure = kj::runCatchingExceptions(
      [&] { connectUnverified(kj::mv(pipe.ends[1]), nullptr).wait(io.waitScope); });
  EXPECT_TRUE(
      KJ_ASSERT_NONNULL(failure).getDescription().startsWith("Unavailable: TLS handshake: "))
      << KJ_ASSERT_NONNULL(failure).getDescription().cStr();
}

TEST(Fingerprint, WhatCannotBeOneIsRefused) {
  checkFingerprint("ANFlhVPP3bUjdbYTO2Ea9JOTjXMQNCYDW3vAkuRkEKc=");
  for (auto wrong :
       {"", "ANFlhVPP3bUjdbYTO2Ea9JOTjXMQNCYDW3vAkuRkEKc", "ANFlhVPP3bUjdbYTO2Ea9JOTjXMQNCYDW3vA",
        "AN:Fl:hV", "ANFlhVPP3bUjdbYTO2Ea9JOTjXMQNCYDW3vAkuRkEKc= "}) {
    EXPECT_TRUE(kj::runCatchingExceptions([&] { checkFingerprint(wrong); }) != nullptr) << wrong;
  }
}

}  // namespace
}  // namespace talos
