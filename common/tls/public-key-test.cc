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
}

}  // namespace
}  // namespace talos::pki
