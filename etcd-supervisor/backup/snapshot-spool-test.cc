#include "etcd-supervisor/backup/snapshot-spool.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/sha256.h"
#include "common/etcd-data/test-bolt-file.h"
#include "common/etcd/test-etcd.h"
#include "common/testing/test-tree.h"
#include "common/tls/pki.h"

namespace talos::supervisor {
namespace {

struct SnapshotSpoolTest : public testing::Test {
  ~SnapshotSpoolTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  etcd::ModelCluster cluster{io.provider->getTimer()};
  etcd::ModelEtcd member{cluster};
  DiskThread disk;
  machined::TestTree tree;
  pki::CertificateAndKey owner =
      pki::makeAuthority({.commonName = "backup", .keyType = pki::KeyType::kEcdsaP256});

  SnapshotSpoolTest() {
    auto database = BoltFile::etcd(1000);
    cluster.database = kj::heapArray(kj::arrayPtr(database.data(), database.size()).asBytes());
  }
  SpooledSnapshot spool(kj::StringPtr recipient) {
    return spoolSnapshot(member, disk, tree.root, recipient).wait(io.waitScope);
  }
  std::string bytesOf(UploadFile& upload) {
    std::string all;
    upload.file
        .use([&](int fd) {
          auto bytes = kj::heapArray<kj::byte>(1u << 20);
          auto size = readAt(fd, 0, bytes, "x");
          all.assign(reinterpret_cast<const char*>(bytes.begin()), size);
        })
        .wait(io.waitScope);
    return all;
  }
};

// Catches: a file in plain, or one with a name; a hash that is not that of the file.
TEST_F(SnapshotSpoolTest, IsEncryptedAndHasNoName) {
  auto spooled = spool(owner.certificate);
  auto& upload = spooled.file;
  auto all = bytesOf(upload);
  EXPECT_EQ(upload.size, all.size());
  EXPECT_GT(upload.size, cluster.database.size());
  Sha256 hash;
  hash.add(kj::arrayPtr(all.data(), all.size()).asBytes());
  EXPECT_EQ(hash.hex(), upload.sha256);
  std::string plain(reinterpret_cast<const char*>(cluster.database.begin()), 64);
  EXPECT_EQ(all.npos, all.find(plain));
  EXPECT_EQ(0u, namesIn(tree.root).size());
  Sha256 plainHash;
  plainHash.add(cluster.database);
  EXPECT_EQ(cluster.database.size(), spooled.databaseBytes);
  EXPECT_EQ(plainHash.finish(), spooled.digest) << "what is signed is not what was encrypted";
}

// Catches: a signature that is cut off on its way, or left on the disk.
TEST_F(SnapshotSpoolTest, BytesAreSpooledWhole) {
  auto text = "a signature"_kj;
  auto upload = spoolBytes(disk, tree.root, kj::heapArray(text.asBytes())).wait(io.waitScope);
  EXPECT_EQ("a signature", bytesOf(upload));
  EXPECT_EQ(text.size(), upload.size);
  Sha256 hash;
  hash.add(text.asBytes());
  EXPECT_EQ(hash.hex(), upload.sha256);
  EXPECT_EQ(0u, namesIn(tree.root).size());
}

// Catches: half a snapshot that is uploaded.
TEST_F(SnapshotSpoolTest, FailsWhenTheMemberDoes) {
  member.faults.snapshotEnds = 2000;
  auto failure = kj::runCatchingExceptions([&]() { spool(owner.certificate); });
  EXPECT_NE(nullptr, strstr(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(), "was lost"));
}

// Catches: a damaged snapshot that replaces good ones.
TEST_F(SnapshotSpoolTest, FailsWhenTheHashIsAnotherOne) {
  member.faults.snapshotDamaged = true;
  auto failure = kj::runCatchingExceptions([&]() { spool(owner.certificate); });
  EXPECT_NE(nullptr, strstr(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(), "is damaged"));
}

TEST_F(SnapshotSpoolTest, FailsWithoutARecipient) {
  auto failure = kj::runCatchingExceptions([&]() { spool("no certificate"); });
  EXPECT_NE(nullptr, strstr(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(), "is not a certificate"));
}

}  // namespace
}  // namespace talos::supervisor
