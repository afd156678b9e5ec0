#include "etcd-supervisor/control/snapshot-file.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/stat.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/testing/test-tree.h"

namespace talos::supervisor {
namespace {

// Returns the beginning of a database of bbolt, several pieces long.
std::string database() {
  std::string bytes(300 * 1024, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 + i / 4096);
  memcpy(bytes.data() + 16, "\xed\xda\x0c\xed", 4);
  return bytes;
}
std::string snapshot() {
  auto bytes = database();
  kj::byte hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size(), hash);
  return bytes + std::string(reinterpret_cast<char*>(hash), sizeof hash);
}

class Source final : public rpc::ByteSource::Server {
 public:
  explicit Source(std::string bytes) : bytes(std::move(bytes)) {}
  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    EXPECT_LE(params.getSize(), 64u << 10);
    auto piece = params.getOffset() < bytes.size()
                     ? bytes.substr(params.getOffset(), params.getSize())
                     : std::string();
    context.getResults().setBytes(kj::arrayPtr(piece.data(), piece.size()).asBytes());
    return kj::READY_NOW;
  }

 private:
  std::string bytes;
};

class SnapshotFileTest : public testing::Test {
 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  machined::TestTree tree;
  DiskThread disk;
  DiskReserve reserve{.percent = 0, .least = 0, .most = 0};
  ErrorKind kind{}, expected = ErrorKind::kInvalidArgument;  // of failures

  ~SnapshotFileTest() noexcept override {}

  // Returns "" if the snapshot was accepted, otherwise the error.
  std::string receiveOf(uint64_t size, std::string sent, bool skip = false) {
    std::string problem;
    kind = ErrorKind::kInvalidArgument;
    receiveSnapshot(io.provider->getTimer(), kj::heap<Source>(std::move(sent)), size, skip,
                    {.queue = disk, .path = tree.at("snapshot"), .reserve = reserve})
        .catch_([&](kj::Exception&& e) {
          kind = kindOf(e);
          problem = messageOf(e).cStr();
        })
        .wait(io.waitScope);
    EXPECT_EQ(kind, expected) << problem;
    return problem;
  }
  std::string receive(std::string sent, bool skip = false) {
    auto size = sent.size();
    return receiveOf(size, std::move(sent), skip);
  }
};

TEST_F(SnapshotFileTest, WholeOneIsWrittenForThisUserAlone) {
  EXPECT_EQ(receive(snapshot()), "");
  auto written = readFile(tree.at("snapshot"));
  EXPECT_EQ(std::string(written.cStr(), written.size()), snapshot());
  struct stat status;
  ASSERT_EQ(stat(tree.at("snapshot").cStr(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(SnapshotFileTest, DamageIsFoundByTheHash) {
  for (size_t at : {20u, 100'000u, 300u * 1024 + 1}) {
    auto bytes = snapshot();
    bytes[at] ^= 1;
    EXPECT_EQ(receive(bytes), "the snapshot is damaged: its SHA-256 is not the one behind it")
        << at;
    EXPECT_EQ(receive(bytes, true), "");
  }
}

TEST_F(SnapshotFileTest, CutOffAndForeignOnesAreRefused) {
  auto cut = snapshot().substr(0, 100'000);
  EXPECT_EQ(receive(cut),
            "the snapshot has 100000 bytes: it was cut off, or is not a snapshot of etcd");
  EXPECT_EQ(receiveOf(300 * 1024 + 32, snapshot().substr(0, 200 * 1024)),
            "the snapshot ended after 204800 bytes of 307232");
  EXPECT_EQ(receive("short"), "the snapshot has 5 bytes, which is too short");
  EXPECT_EQ(receive(std::string(8192, 'x')),
            "the snapshot has no SHA-256 behind it: for a copy of the database file use "
            "--recover-skip-hash-check");
  EXPECT_EQ(receive(std::string(8192, 'x'), true), "the snapshot is not a database of etcd");
}

TEST_F(SnapshotFileTest, BareDatabaseIsTakenWhenTheHashIsSkipped) {
  EXPECT_NE(receive(database()), "");
  EXPECT_EQ(receive(database(), true), "");
}

// Catches: a snapshot that fills the disk of etcd, or whose database does after it; a size that a
// client makes up.
TEST_F(SnapshotFileTest, TheDiskKeepsItsReserve) {
  EXPECT_EQ(receiveOf(kMostSnapshotBytes + 1, snapshot()), "the snapshot is larger than 8192 MiB");
  reserve.least = reserve.most = uint64_t{1} << 62;
  expected = ErrorKind::kResourceExhausted;
  auto problem = receive(snapshot());
  EXPECT_EQ(problem.find("EPHEMERAL has no room for the snapshot: 1 MiB more are needed, "), 0u)
      << problem;
  EXPECT_EQ(readFile(tree.at("snapshot")).size(), 0u);
  DiskReserve usual;
  EXPECT_EQ(usual.of(1u << 30), 256u << 20);
  EXPECT_EQ(usual.of(uint64_t{4} << 30), (uint64_t{4} << 30) / 100 * 15);
  EXPECT_EQ(usual.of(uint64_t{1} << 40), uint64_t{2} << 30);
}

}  // namespace
}  // namespace talos::supervisor
