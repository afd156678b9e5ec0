#include "common/tls/public-key.h"

#include <gtest/gtest.h>

#include "common/tls/pki.h"

namespace talos::pki {
namespace {

// Catches: a certificate that stays in use because its issuer has the same name as the new one.
TEST(SignedBy, GoesByTheKey) {
  for (auto type : {KeyType::kEd25519, KeyType::kEcdsaP256}) {
    auto authority = makeAuthority({.organization = "kubernetes", .keyType = type});
    auto other = makeAuthority({.organization = "kubernetes", .keyType = type});
    auto leaf = issue(authority.certificate, authority.key, {.commonName = "a"});
    EXPECT_TRUE(isSignedBy(leaf.certificate, authority.certificate));
    EXPECT_FALSE(isSignedBy(leaf.certificate, other.certificate));
    EXPECT_FALSE(isSignedBy("", authority.certificate));
    EXPECT_FALSE(isSignedBy(leaf.certificate, "no certificate"));
  }
}

TEST(PublicKey, IsThatOfThePrivateOne) {
  auto key = makeKey(KeyType::kEcdsaP256), other = makeKey(KeyType::kEcdsaP256);
  auto text = publicKeyOf(key);
  EXPECT_TRUE(text.startsWith("-----BEGIN PUBLIC KEY-----\n")) << text.cStr();
  EXPECT_EQ(text, publicKeyOf(toPkcs8(key)));
  EXPECT_NE(text, publicKeyOf(other));
  EXPECT_THROW(publicKeyOf("no key"), kj::Exception);
  EXPECT_FALSE(isRsaKey(key));
}

// The id is as openssl(1) computes it. Catches: a token whose key is not recognized, a key that no
// API server can read.
TEST(PublicKey, HasTheIdThatTokensName) {
  constexpr kj::StringPtr kKey =
      "-----BEGIN PUBLIC KEY-----\n"
      "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEKvqOagy3vs5FSkUuwjONcYJwBMyj\n"
      "S5kPDLW3r6+Mog37ARQhZriyehV+jlSvnXMbv6o3V8D+ASROfu1oCq/8Ow==\n"
      "-----END PUBLIC KEY-----\n"_kj;
  EXPECT_EQ(tokenKeyId(kKey), "HrhgnwS6DsVwlV6Vp59akEfSP-z7H2eqqo1iJppbBoE"_kj);
  auto other = publicKeyOf(makeKey(KeyType::kEcdsaP256));
  auto both = publicKeysIn(kj::str("x\n", kKey, "\n", other));
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0], kKey);
  EXPECT_EQ(both[1], other);
  EXPECT_THROW(tokenKeyId(publicKeyOf(makeKey(KeyType::kEd25519))), kj::Exception);
  EXPECT_THROW(tokenKeyId("no key"), kj::Exception);
}

}  // namespace
}  // namespace talos::pki
