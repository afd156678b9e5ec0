// Signatures made by openssl, and bytes that are not signatures.
#include "common/tls/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>

#include "common/base/error.h"
#include "common/tls/openssl.h"

namespace talos::pki {
namespace {

using testing::HasSubstr;

struct Pair {
  Key key;
  kj::String pem;
};
Pair newPair(int type, const char* curve = "P-256") {
  Key key(type == EVP_PKEY_ED25519 ? EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")
          : type == EVP_PKEY_EC    ? EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", curve)
                                   : EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", size_t(2048)));
  BIO* bio = BIO_new(BIO_s_mem());
  KJ_DEFER(BIO_free(bio));
  KJ_ASSERT(PEM_write_bio_PUBKEY(bio, key.get()) == 1);
  char* data;
  auto size = BIO_get_mem_data(bio, &data);
  return {kj::mv(key), kj::heapString(data, static_cast<size_t>(size))};
}
kj::Array<kj::byte> sign(EVP_PKEY* key, kj::StringPtr text) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  KJ_DEFER(EVP_MD_CTX_free(context));
  auto* digest = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
  KJ_ASSERT(EVP_DigestSignInit(context, nullptr, digest, nullptr, key) == 1);
  size_t size = 128;
  auto out = kj::heapArray<kj::byte>(size);
  KJ_ASSERT(EVP_DigestSign(context, out.begin(), &size, text.asBytes().begin(), text.size()) == 1);
  return kj::heapArray(out.slice(0, size));
}
kj::String problem(kj::StringPtr pem) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { VerifyKey key(pem); })) return messageOf(*e);
  return kj::String();
}

}  // namespace

// Catches: a signature of other bytes or by another key, or a missing one, that is accepted.
TEST(Signature, IsOfTheseBytesAndThisKey) {
  for (int type : {EVP_PKEY_ED25519, EVP_PKEY_EC}) {
    auto pair = newPair(type), other = newPair(type);
    VerifyKey key(pair.pem);
    auto good = sign(pair.key.get(), "an image");
    EXPECT_TRUE(key.verifies("an image"_kj.asBytes(), good));
    EXPECT_FALSE(key.verifies("an imagE"_kj.asBytes(), good));
    EXPECT_FALSE(key.verifies("an image"_kj.asBytes(), sign(other.key.get(), "an image")));
    EXPECT_FALSE(key.verifies("an image"_kj.asBytes(), nullptr));
    EXPECT_EQ(key.needsWhole(), type == EVP_PKEY_ED25519);
    auto inPieces = [&](kj::StringPtr first, kj::StringPtr second, EVP_PKEY* signer) {
      SignatureCheck verification(key);
      verification.add(first.asBytes());
      verification.add(second.asBytes());
      return verification.fits(sign(signer, "an image"));
    };
    if (key.needsWhole()) {
      EXPECT_ANY_THROW(inPieces("an", " image", pair.key.get()));
    } else {
      EXPECT_TRUE(inPieces("an", " image", pair.key.get()));
      EXPECT_FALSE(inPieces("an", "image", pair.key.get()));
      EXPECT_FALSE(inPieces("an", " image", other.key.get()));
    }
    good[good.size() - 1] ^= 1;
    EXPECT_FALSE(key.verifies("an image"_kj.asBytes(), good));
    EXPECT_THAT(key.name().cStr(), HasSubstr("SHA256:"));
    EXPECT_NE(key.name(), VerifyKey(other.pem).name());
  }
}

// Catches: a key of a type that is not on the list of allowed ones; a private key, or another text,
// that is taken for a public key.
TEST(Signature, OtherKeysAreRefused) {
  for (auto& pair : {newPair(EVP_PKEY_RSA), newPair(EVP_PKEY_EC, "P-384")}) {
    EXPECT_THAT(problem(pair.pem).cStr(), HasSubstr("not one of ECDSA P-256 or Ed25519"));
  }
  EXPECT_THAT(problem("nothing").cStr(), HasSubstr("expected a public key in PEM form"));
  auto pem = writePkcs8(newPair(EVP_PKEY_ED25519).key.get());
  EXPECT_THAT(problem(kj::heapString(pem.bytes().asChars())).cStr(),
              HasSubstr("expected a public key in PEM form"));
}

// Catches: base64 with line ends, as cosign writes it, that is taken for the signature itself;
// bytes that are not a signature and are accepted.
TEST(Signature, FilesHaveItInEitherForm) {
  auto pair = newPair(EVP_PKEY_EC);
  auto signature = sign(pair.key.get(), "x");
  EXPECT_EQ(signatureOf(signature), signature);
  EXPECT_EQ(signatureOf(kj::str(kj::encodeBase64(signature, true)).asBytes()), signature);
  EXPECT_EQ(signatureOf(kj::str(kj::encodeBase64(signature), "\n").asBytes()), signature);
  auto longer = kj::heapArray<kj::byte>(2000);
  memset(longer.begin(), 'A', longer.size());
  for (auto bad : {""_kj.asBytes(), "abc"_kj.asBytes(), "====="_kj.asBytes(),
                   "<html>not found</html>\n<!-- a page that is longer than signatures are, with "
                   "some more words in it -->"_kj.asBytes(),
                   longer.asBytes().asConst()}) {
    EXPECT_NE(kj::runCatchingExceptions([&] { signatureOf(bad); }), nullptr);
  }
}

}  // namespace talos::pki
