#include "common/etcd-data/snapshot-signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/cms.h>

#include "common/base/error.h"
#include "common/tls/openssl.h"

namespace talos {
namespace {

using testing::HasSubstr;

constexpr auto kTaken = kj::UNIX_EPOCH + 1795690800 * kj::SECONDS;  // 2026-11-26T11:00:00Z

pki::CertificateAndKey authority(pki::KeyType type = pki::KeyType::kEcdsaP256) {
  return pki::makeAuthority(
      {.organization = "etcd", .keyType = type, .notBefore = kTaken - 24 * kj::HOURS});
}

pki::CertificateAndKey certificateOf(const pki::CertificateAndKey& ca, bool server = true) {
  pki::LeafOptions options{.commonName = "m-1", .server = server, .client = true};
  options.notBefore = kTaken - 1 * kj::HOURS;
  options.lifetime = 24 * kj::HOURS;
  return pki::issue(ca.certificate, ca.key, kj::mv(options));
}

SnapshotStatement statement(kj::Date taken = kTaken) {
  auto digest = kj::heapArray<kj::byte>(32);
  for (auto i : kj::indices(digest)) digest[i] = static_cast<kj::byte>(i);
  return {.taken = taken, .cluster = 0xc1, .bytes = 20480, .sha256 = kj::mv(digest)};
}

kj::Array<kj::byte> signedBy(const pki::CertificateAndKey& signer, kj::Date taken = kTaken) {
  return signSnapshot(statement(taken), signer.certificate, signer.key);
}

// Returns "" if the signature is valid, otherwise the error.
std::string verified(kj::ArrayPtr<const kj::byte> signature, kj::StringPtr authorities) {
  auto failure = kj::runCatchingExceptions([&] { verifySnapshot(signature, authorities); });
  KJ_IF_MAYBE (e, failure) {
    EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(*e)) << messageOf(*e).cStr();
    return messageOf(*e).cStr();
  }
  return "";
}

// Returns an arbitrary message with such a signature.
kj::Array<kj::byte> signedText(kj::StringPtr text, const pki::CertificateAndKey& signer) {
  auto certificate = pki::readCertificate(signer.certificate);
  auto key = pki::readKey(signer.key);
  BIO* content = BIO_new_mem_buf(text.begin(), static_cast<int>(text.size()));
  auto* message = CMS_sign(certificate.get(), key.get(), nullptr, content, CMS_BINARY);
  unsigned char* der = nullptr;
  int size = i2d_CMS_ContentInfo(message, &der);
  auto bytes = kj::heapArray<kj::byte>(der, static_cast<size_t>(size));
  OPENSSL_free(der);
  CMS_ContentInfo_free(message);
  BIO_free(content);
  return bytes;
}

}  // namespace

// Catches: a value that is lost; a kind of key of which a cluster's backups have no signature.
TEST(SnapshotSignature, SaysWhatWasSigned) {
  for (auto type : {pki::KeyType::kEcdsaP256, pki::KeyType::kEd25519, pki::KeyType::kRsa4096}) {
    auto ca = authority(type);
    auto signature = signedBy(certificateOf(ca));
    EXPECT_LT(signature.size(), kMostSnapshotSignature);
    auto read = verifySnapshot(signature, ca.certificate);
    EXPECT_TRUE(read.taken == kTaken);
    EXPECT_EQ(0xc1u, read.cluster);
    EXPECT_EQ(20480u, read.bytes);
    EXPECT_EQ(statement().sha256, read.sha256);
  }
}

// Catches: a snapshot that is signed with a foreign CA, or with a certificate that is not issued to
// members alone, such as the API server's.
TEST(SnapshotSignature, IsOfAMemberOfTheCluster) {
  auto ca = authority(), other = authority();
  EXPECT_THAT(verified(signedBy(certificateOf(other)), ca.certificate),
              HasSubstr("not signed by a member of this cluster's etcd"));
  EXPECT_THAT(verified(signedBy(certificateOf(ca, false)), ca.certificate),
              HasSubstr("not signed by a member of this cluster's etcd"));
  EXPECT_THAT(verified(signedBy(certificateOf(ca)), ""), HasSubstr("certificate"));
}

// Catches: a backup from before a rotation that cannot be recovered from; a key that was stolen
// after its certificate ended, and signs.
TEST(SnapshotSignature, CountsAtTheTimeOfTheSnapshot) {
  auto old = authority(), fresh = authority();
  auto signature = signedBy(certificateOf(old));
  EXPECT_EQ("", verified(signature, kj::str(fresh.certificate, old.certificate)));
  auto member = certificateOf(fresh);
  EXPECT_EQ("", verified(signedBy(member), fresh.certificate))
      << "valid then, expired now or later";
  EXPECT_THAT(verified(signedBy(member, kTaken + 48 * kj::HOURS), fresh.certificate),
              HasSubstr("expired"));
  EXPECT_THAT(verified(signedBy(member, kTaken - 2 * kj::HOURS), fresh.certificate),
              HasSubstr("not yet valid"));
}

// Catches: a signature of an old backup beside another one.
TEST(SnapshotSignature, IsOfOneSnapshot) {
  auto signedOne = statement();
  signedOne.requireFor(20480, statement().sha256);
  auto other = statement().sha256;
  other[31] ^= 1;
  auto failure = kj::runCatchingExceptions([&] { signedOne.requireFor(20480, other); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
              HasSubstr("of another snapshot, taken 2026-11-26T11:00:00Z"));
  EXPECT_ANY_THROW(signedOne.requireFor(20992, statement().sha256));
}

// Catches: bytes that crash the reader, or that are a signature although they were changed.
TEST(SnapshotSignature, ABrokenOneIsNone) {
  auto ca = authority();
  auto signature = signedBy(certificateOf(ca));
  for (size_t size = 0; size < signature.size(); size += size < 64 ? 1 : 37) {
    EXPECT_NE("", verified(signature.slice(0, size), ca.certificate)) << size;
  }
  auto longer = kj::heapArray<kj::byte>(signature.size() + 1);
  memcpy(longer.begin(), signature.begin(), signature.size());
  longer[signature.size()] = 0;
  EXPECT_NE("", verified(longer, ca.certificate));
  EXPECT_NE("", verified(kj::heapArray<kj::byte>(kMostSnapshotSignature + 1), ca.certificate));
  auto text = kj::StringPtr("bytes 20480");
  auto at = std::search(signature.begin(), signature.end(), text.begin(), text.end());
  ASSERT_NE(at, signature.end());
  at[6] = '3';
  EXPECT_THAT(verified(signature, ca.certificate), HasSubstr("changed after it was signed"));
}

// Catches: something else that a member has signed and is taken for a snapshot; a statement with
// two readings.
TEST(SnapshotSignature, TheStatementHasOneForm) {
  auto ca = authority();
  auto member = certificateOf(ca);
  auto digest = kj::repeat('a', 64);
  auto right =
      kj::str("snapshot of etcd, 1\ntaken 2026-11-26T11:00:00Z\ncluster 00000000000000c1\n",
              "bytes 512\nsha256 ", digest, "\n");
  EXPECT_EQ("", verified(signedText(right, member), ca.certificate));
  for (auto& wrong :
       {kj::str(), kj::str("hello"), kj::str("snapshot of etcd, 2\n", right.slice(20)),
        kj::str(right, "more\n"), kj::str(right.slice(0, right.size() - 1)),
        kj::str("snapshot of etcd, 1\ntaken 2026-11-26T11:00:00Z\ncluster c1\nbytes 512\nsha256 ",
                digest, "\n"),
        kj::str("snapshot of etcd, 1\ntaken today\ncluster 00000000000000c1\nbytes 512\nsha256 ",
                digest, "\n"),
        kj::str("snapshot of etcd, 1\ntaken 2026-11-26T11:00:00Z\ncluster 00000000000000c1\n",
                "bytes 0512\nsha256 ", digest, "\n"),
        kj::str("snapshot of etcd, 1\ntaken 2026-11-26T11:00:00Z\ncluster 00000000000000c1\n",
                "bytes 512\nsha256 aa\n")}) {
    EXPECT_THAT(verified(signedText(wrong, member), ca.certificate), HasSubstr("its statement"))
        << wrong.cStr();
  }
}

}  // namespace talos
