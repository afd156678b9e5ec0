// Tests files of snapshots: names of a series, and encryption.
#include "talosctl/etcd/etcd-snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/cms.h>
#include <openssl/pem.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/etcd-data/snapshot-series.h"
#include "common/testing/test-tree.h"
#include "common/tls/pki.h"

namespace talos::talosctl {
namespace {

// Catches: a foreign file that is removed, a newer file that is removed before an older one.
TEST(SnapshotSeries, RemovesItsOwnOldest) {
  auto names = kj::arr(
      kj::str("etcd-20261127T010000Z.snapshot"), kj::str("etcd.snapshot"),
      kj::str("etcd-20261126T230000Z.snapshot.cms"), kj::str("etcd-20261127T020000Z.snapshot.part"),
      kj::str("etcd-2026-127T010000Z.snapshot"), kj::str("etcd-20261127T020000Z.snapshot"));
  auto removed = [&](size_t keep) { return kj::strArray(replacedSnapshots(names, keep), " "); };
  EXPECT_EQ("etcd-20261126T230000Z.snapshot.cms"_kj, removed(2));
  EXPECT_EQ("etcd-20261126T230000Z.snapshot.cms etcd-20261127T010000Z.snapshot"_kj, removed(1));
  EXPECT_EQ(""_kj, removed(3));
  auto name = snapshotName(kj::UNIX_EPOCH + 1795745602 * kj::SECONDS, true);
  EXPECT_EQ("etcd-20261127T021322Z.snapshot.cms"_kj, name);
  auto made = kj::arr(kj::mv(name));
  EXPECT_EQ(1u, replacedSnapshots(made, 0).size());
}

// Returns a snapshot as a node sends it: pages, and their hash.
kj::Array<kj::byte> snapshotOf(size_t pages) {
  auto bytes = kj::heapArray<kj::byte>(pages * 512 + Sha256::kBytes);
  for (size_t i = 0; i < pages * 512; ++i) bytes[i] = static_cast<kj::byte>(i * 7 + i / 512);
  Sha256 hash;
  hash.add(bytes.slice(0, pages * 512));
  auto digest = hash.finish();
  memcpy(bytes.begin() + pages * 512, digest.begin(), digest.size());
  return bytes;
}

// Decrypts with the library's own reader.
kj::Maybe<kj::Array<kj::byte>> decrypted(kj::StringPtr file, const pki::CertificateAndKey& owner) {
  auto text = readFile(file);
  BIO* in = BIO_new_mem_buf(text.begin(), static_cast<int>(text.size()));
  BIO* keyText =
      BIO_new_mem_buf(owner.key.bytes().begin(), static_cast<int>(owner.key.bytes().size()));
  BIO* certText =
      BIO_new_mem_buf(owner.certificate.begin(), static_cast<int>(owner.certificate.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(keyText, nullptr, nullptr, nullptr);
  X509* certificate = PEM_read_bio_X509(certText, nullptr, nullptr, nullptr);
  CMS_ContentInfo* message = d2i_CMS_bio(in, nullptr);
  BIO* out = BIO_new(BIO_s_mem());
  kj::Maybe<kj::Array<kj::byte>> result;
  if (message != nullptr && CMS_decrypt(message, key, certificate, nullptr, out, CMS_BINARY) == 1) {
    char* data = nullptr;
    auto size = BIO_get_mem_data(out, &data);
    result = kj::heapArray<kj::byte>(reinterpret_cast<kj::byte*>(data), static_cast<size_t>(size));
  }
  CMS_ContentInfo_free(message);
  X509_free(certificate);
  EVP_PKEY_free(key);
  for (BIO* bio : {in, keyText, certText, out}) BIO_free(bio);
  return result;
}

// Catches: a file that its owner cannot read, that others can read, or that is accepted although it
// was changed; a damaged snapshot that is kept because it is encrypted.
TEST(SnapshotFile, IsEncryptedToTheOwnerOfACertificate) {
  machined::TestTree tree;
  for (auto type : {pki::KeyType::kRsa4096, pki::KeyType::kEcdsaP256}) {
    auto owner = pki::makeAuthority({.commonName = "backup", .keyType = type});
    auto other = pki::makeAuthority({.commonName = "other", .keyType = type});
    auto path = tree.at("etcd.snapshot.cms");
    CmsRecipient recipient(owner.certificate, "certificate.pem");
    auto bytes = snapshotOf(300);
    {
      SnapshotFile file(path, recipient);
      for (size_t at = 0; at < bytes.size(); at += 5000) {
        file.write(bytes.slice(at, kj::min(at + 5000, bytes.size())));
      }
      EXPECT_EQ(bytes.size(), file.size());
      file.keep("signature"_kj.asBytes());
    }
    EXPECT_TRUE(KJ_ASSERT_NONNULL(decrypted(path, owner)) == bytes);
    EXPECT_TRUE(decrypted(path, other) == nullptr);
    EXPECT_EQ("signature"_kj, readFile(kj::str(path, ".sig")));
    auto changed = readFile(path);
    changed[changed.size() / 2] ^= 1;
    writeFileAtomically(path, changed.asArray(), 0600);
    EXPECT_TRUE(decrypted(path, owner) == nullptr);

    SnapshotFile damaged(tree.at("damaged"), recipient);
    damaged.write(bytes.slice(0, bytes.size() - 1));
    EXPECT_ANY_THROW(damaged.keep("signature"_kj.asBytes()));
  }
  EXPECT_TRUE(tryReadFile(tree.at("damaged")) == nullptr);
  EXPECT_TRUE(tryReadFile(tree.at("damaged.sig")) == nullptr);
}

// Catches: the signature of an earlier file beside a snapshot without a signature.
TEST(SnapshotFile, HasNoSignatureOfAnother) {
  machined::TestTree tree;
  auto path = tree.at("etcd.snapshot");
  auto bytes = snapshotOf(3);
  for (auto signature : {"one"_kj, ""_kj}) {
    SnapshotFile file(path);
    file.write(bytes);
    file.keep(signature.asBytes());
    EXPECT_EQ(signature.size() == 0, tryReadFile(kj::str(path, ".sig")) == nullptr);
  }
}

// Catches: an unusable encryption key that is noticed only after the snapshot was made.
TEST(SnapshotFile, RefusesWhatIsNoRecipient) {
  auto refusal = [&](kj::StringPtr text) {
    try {
      CmsRecipient recipient(text, "certificate.pem");
    } catch (const kj::Exception& e) {
      return std::string(messageOf(e).cStr());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("nonsense"_kj), testing::HasSubstr("is not a certificate in PEM format"));
  auto ed25519 = pki::makeAuthority({.commonName = "x"});
  EXPECT_THAT(refusal(ed25519.certificate), testing::HasSubstr("use one of RSA"));
}

}  // namespace
}  // namespace talos::talosctl
