// Several CAs at the same time, and the certificates that are sent after those of one of them.
#include "common/tls/authorities.h"

#include <gtest/gtest.h>

#include "common/tls/pki.h"
#include "common/tls/public-key.h"
#include "common/tls/tls.h"

namespace talos::pki {
namespace {

struct Authorities2 {
  CertificateAndKey one = makeAuthority({.organization = "talos"});
  CertificateAndKey two = makeAuthority({.organization = "talos"});
  kj::String twoByOne = crossSign(one.certificate, one.key, two.certificate);
};

}  // namespace

// Catches: a certificate of the list that is lost, or assembled from two halves.
TEST(Authorities, CertificatesInATextAreFound) {
  Authorities2 both;
  EXPECT_EQ(certificatesIn("").size(), 0u);
  EXPECT_EQ(certificatesIn("-----END CERTIFICATE-----").size(), 0u);
  auto found = certificatesIn(
      kj::str("a comment\n", both.one.certificate, "\n# another\n", both.two.certificate));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], both.one.certificate);
  EXPECT_EQ(found[1], both.two.certificate);
}

// Catches: a certificate for the CA's own key that is trusted as a further CA; another CA that is
// sent in the chain; a text that changes although no CA is accepted, so that certificates are
// issued again.
TEST(Authorities, ThoseOfTheSameKeyGoBehindAndOthersAreTrusted) {
  Authorities2 both;
  auto accepted = kj::str(both.one.certificate, both.twoByOne, both.two.certificate);
  auto result = authoritiesOf(both.two.certificate, accepted);
  EXPECT_EQ(result.trusted, kj::str(both.two.certificate, both.one.certificate));
  EXPECT_EQ(result.behind, both.twoByOne);
  auto alone = authoritiesOf("whatever the config has", "");
  EXPECT_EQ(alone.trusted, "whatever the config has");
  EXPECT_EQ(alone.behind, "");
  EXPECT_EQ(authoritiesOf("", both.one.certificate).trusted, both.one.certificate);
  EXPECT_TRUE(isSignedByAny(both.twoByOne, accepted));
  EXPECT_FALSE(isSignedByAny(both.one.certificate, both.two.certificate));
}

// Catches: a certificate that is sent with the former CA's chain, or with two.
TEST(Authorities, CertificateIsSentWithTheChainOfItsOwnCa) {
  Authorities2 both;
  auto sent = chainOf(both.one.certificate, both.twoByOne);
  EXPECT_EQ(sent, kj::str(both.one.certificate, both.twoByOne));
  EXPECT_EQ(chainOf(sent, both.twoByOne), sent);
  EXPECT_EQ(chainOf(sent, both.two.certificate),
            kj::str(both.one.certificate, both.two.certificate));
  EXPECT_EQ(chainOf(sent, ""), both.one.certificate);
  EXPECT_EQ(chainOf("", ""), "");
}

// Catches: a cross-signed CA that cannot be used: another key or name, no mark as a CA, no
// reference to its signer, or a validity beyond its signer's.
TEST(Authorities, ACaAsAnotherOneSignedItHasItsKeyAndName) {
  auto start = kj::systemPreciseCalendarClock().now() - 1 * kj::HOURS;
  auto one = makeAuthority(
      {.organization = "talos", .lifetime = 48 * kj::HOURS, .notBefore = start + 10 * kj::SECONDS});
  auto two =
      makeAuthority({.organization = "talos", .lifetime = 96 * kj::HOURS, .notBefore = start});
  auto cross = crossSign(one.certificate, one.key, two.certificate);
  EXPECT_EQ(fingerprint(cross), fingerprint(two.certificate));
  EXPECT_TRUE(isSignedBy(cross, one.certificate));
  EXPECT_FALSE(isSignedBy(cross, two.certificate));
  auto info = inspect(cross), signer = inspect(one.certificate), own = inspect(two.certificate);
  EXPECT_TRUE(info.authority);
  EXPECT_EQ(info.organizations[0], "talos");
  EXPECT_NE(info.serial, own.serial);
  EXPECT_EQ(info.notBefore, signer.notBefore);
  EXPECT_EQ(info.notAfter, signer.notAfter);
  EXPECT_ANY_THROW(crossSign(one.certificate, two.key, two.certificate));
}

// Catches: several CAs of which only the first, or none, verifies a server.
TEST(Authorities, AServerOfAnyOfThemIsVerified) {
  Authorities2 both;
  auto third = makeAuthority({.organization = "talos"});
  auto list = kj::str(both.one.certificate, both.two.certificate);
  for (auto* authority : {&both.one, &both.two, &third}) {
    auto leaf = issue(authority->certificate, authority->key, {.commonName = "node"});
    auto error = serverCertificateError(leaf.certificate, list, nullptr);
    EXPECT_EQ(error != nullptr, authority == &third);
  }
  auto leaf = issue(both.one.certificate, both.one.key, {.commonName = "node"});
  EXPECT_NE(serverCertificateError(leaf.certificate, "", nullptr), nullptr);
}

// Catches: a client that trusts only the old CA, or only the new one, and cannot verify a node; a
// client of a CA that is in no list and is served.
TEST(Authorities, ClientsOfEitherCaVerifyANodeOfOne) {
  Authorities2 both;
  auto stranger = makeAuthority({.organization = "talos"});
  auto io = kj::setupAsyncIo();
  auto now = authoritiesOf(both.two.certificate, kj::str(both.one.certificate, both.twoByOne));
  auto leaf = issue(both.two.certificate, both.two.key,
                    {.dnsNames = kj::arr(kj::str("node.test")), .client = false});
  TlsEndpoint server(
      Credentials{kj::str(now.trusted), kj::str(leaf.certificate, now.behind), kj::mv(leaf.key)});
  auto handshake = [&](const CertificateAndKey& authority) {
    auto own = issue(authority.certificate, authority.key, {.commonName = "ada", .server = false});
    TlsEndpoint client(
        Credentials{kj::str(authority.certificate), kj::mv(own.certificate), kj::mv(own.key)});
    auto pipe = io.provider->newTwoWayPipe();
    auto accepting = server.accept(kj::mv(pipe.ends[0]), kj::str("here"));
    auto connecting = client.connect(kj::mv(pipe.ends[1]), "node.test");
    bool good = true;
    kj::Own<kj::AsyncIoStream> up;
    auto failed = [&](kj::Exception&&) { good = false; };
    auto both = kj::heapArrayBuilder<kj::Promise<void>>(2);
    both.add(connecting.then([&](auto&& stream) { up = kj::mv(stream); }, failed));
    both.add(accepting.then([&](auto&& accepted) { EXPECT_EQ(accepted.peer.commonName, "ada"); },
                            failed));
    io.provider->getTimer()
        .timeoutAfter(10 * kj::SECONDS, kj::joinPromisesFailFast(both.finish()))
        .catch_(failed)
        .wait(io.waitScope);
    return good;
  };
  EXPECT_TRUE(handshake(both.one));
  EXPECT_TRUE(handshake(both.two));
  EXPECT_FALSE(handshake(stranger));
}

}  // namespace talos::pki
