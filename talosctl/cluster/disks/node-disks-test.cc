#include "talosctl/cluster/disks/node-disks.h"

#include <capnp/message.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/disk/gpt.h"

namespace talos::cluster {
namespace {

struct Disks : public ::testing::Test {
  kj::String folder;
  capnp::MallocMessageBuilder message;
  Disks() {
    char path[] = "/tmp/disks-test-XXXXXX";
    folder = kj::str(mkdtemp(path));
  }
  ~Disks() noexcept override { removeTree(folder); }

  rpc::LocalCluster::Builder cluster() {
    auto out = message.initRoot<rpc::LocalCluster>();
    auto node = out.initNodes(1)[0];
    node.setName("n");
    node.setDisk(64 << 20);
    node.setStateDisk(kStateDiskBytes);
    return out;
  }
  void makeFirst(rpc::LocalCluster::Reader cluster) {
    makeDisks(cluster, cluster.getNodes()[0], folder);
  }
  static uint64_t big(const char* at, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(at[i]);
    return value;
  }
  static off_t blockSizeOf(const char* xfs) { return static_cast<off_t>(big(xfs + 4, 4)); }
  static off_t blocksOf(const char* xfs) { return static_cast<off_t>(big(xfs + 8, 8)); }
  struct stat statusOf(kj::StringPtr name) {
    struct stat s = {};
    EXPECT_EQ(stat(kj::str(folder, "/", name).cStr(), &s), 0);
    return s;
  }
  kj::String write(kj::StringPtr name, size_t at, kj::StringPtr text) {
    auto path = kj::str(folder, "/", name);
    kj::AutoCloseFd fd(open(path.cStr(), O_RDWR | O_CREAT, 0600));
    EXPECT_EQ(pwrite(fd, text.begin(), text.size(), at), ssize_t(text.size()));
    return path;
  }
};

// Catches: a disk that its owner has write-protected and the machine can write to.
TEST_F(Disks, AFileThatNobodyMayWriteIsProtected) {
  auto path = write("disk", 0, "x");
  EXPECT_FALSE(isWriteProtected(path));
  ASSERT_EQ(chmod(path.cStr(), 0440), 0);
  EXPECT_TRUE(isWriteProtected(path));
  EXPECT_THROW(isWriteProtected(kj::str(folder, "/none")), kj::Exception);
}

// Catches: a state disk that precedes the installation disk.
TEST_F(Disks, TheDiskThatNodesAreInstalledOnIsFirst) {
  EXPECT_EQ(kj::strArray(diskFiles(cluster().getNodes()[0], "/s"), " "), "/s/n.disk /s/n.state");
}

// Catches: a state disk whose partition is not named STATE or has no XFS, that occupies the 64 MiB
// that mkfs reserves for its log, or that others may read.
TEST_F(Disks, TheStateDiskHasAPartitionWithAnEmptyXfs) {
  makeFirst(cluster());
  auto path = kj::str(folder, "/n.state");
  kj::AutoCloseFd fd(open(path.cStr(), O_RDONLY));
  char block[512] = {};
  ASSERT_EQ(pread(fd, block, sizeof block, off_t(gpt::kAlignment)), ssize_t(sizeof block));
  EXPECT_EQ(memcmp(block, "XFSB", 4), 0);
  EXPECT_STREQ(block + 108, "STATE");  // sb_fname
  auto status = statusOf("n.state");
  EXPECT_EQ(status.st_size, off_t(kStateDiskBytes));
  EXPECT_LT(status.st_blocks * 512, 2 << 20);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_NE(access(kj::str(path, ".content").cStr(), F_OK), 0);
  EXPECT_EQ(status.st_size - off_t(2 * gpt::kAlignment + (1 << 20)),
            blockSizeOf(block) * blocksOf(block));
  EXPECT_EQ(statusOf("n.disk").st_size, 64 << 20);
  EXPECT_EQ(statusOf("n.disk").st_blocks, 0);
}

// Catches: a file system in the partition that the node will encrypt: the node refuses a partition
// that is not empty.
TEST_F(Disks, TheStateDiskIsEmptyForANodeThatEncryptsIt) {
  auto out = cluster();
  out.setEncryptState(true);
  makeFirst(out);
  auto disk = readFile(kj::str(folder, "/n.state"), kStateDiskBytes);
  EXPECT_EQ(memcmp(disk.begin() + 512, "EFI PART", 8), 0);
  for (size_t i = gpt::kAlignment; i < kStateDiskBytes - gpt::kAlignment; ++i) {
    ASSERT_EQ(disk[i], 0) << i;
  }
}

// Catches: a table that the kernel considers damaged, or from which it reads another name or
// position.
TEST_F(Disks, TheTableIsWhole) {
  makeFirst(cluster());
  auto disk = readFile(kj::str(folder, "/n.state"), kStateDiskBytes);
  auto little = [&](size_t at, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = size; i > 0; --i) value = value << 8 | static_cast<uint8_t>(disk[at + i - 1]);
    return value;
  };
  auto sum = [&](size_t at, size_t size) {
    return crc32(0, disk.asBytes().begin() + at, static_cast<uInt>(size));
  };
  EXPECT_EQ(little(510, 2), 0xaa55u);
  EXPECT_EQ(little(446 + 4, 1), 0xeeu);
  size_t last = kStateDiskBytes - 512;
  for (size_t at : {size_t{512}, last}) {
    EXPECT_EQ(memcmp(disk.begin() + at, "EFI PART", 8), 0);
    EXPECT_EQ(little(at + 24, 8) * 512, at);
    EXPECT_EQ(little(at + 32, 8) * 512, at == 512 ? last : 512);
    auto entries = little(at + 72, 8) * 512;
    EXPECT_EQ(little(at + 88, 4), sum(entries, size_t{128} * 128));
    EXPECT_EQ(memcmp(disk.begin() + entries + 56, "S\0T\0A\0T\0E\0\0", 12), 0);
    EXPECT_EQ(little(entries + 32, 8) * 512, gpt::kAlignment);
    EXPECT_EQ((little(entries + 40, 8) + 1) * 512, gpt::kAlignment + (300u << 20));
    auto second = entries + 128;
    EXPECT_EQ(memcmp(disk.begin() + second + 56, "M\0E\0T\0A\0\0", 10), 0);
    EXPECT_EQ(little(second + 32, 8) * 512, gpt::kAlignment + (300u << 20));
    EXPECT_EQ((little(second + 40, 8) + 1) * 512, kStateDiskBytes - gpt::kAlignment);
    EXPECT_NE(sum(entries + 16, 16), sum(0, 16)) << "the partition has no identity";
    auto own = little(at + 16, 4);
    memset(disk.begin() + at + 16, 0, 4);
    EXPECT_EQ(own, sum(at, 92));
  }
}

// Catches: a failure of mkfs that counts as success, or whose error lacks the reason.
TEST_F(Disks, WhatMkfsSaysIsInTheFailure) {
  auto c = cluster();
  c.getNodes()[0].setStateDisk(1 << 20);
  auto failure = kj::runCatchingExceptions([&] { makeFirst(c); });
  auto text = messageOf(KJ_ASSERT_NONNULL(failure));
  EXPECT_NE(strstr(text.cStr(), "n.state: cannot create the file system: "), nullptr)
      << text.cStr();
  EXPECT_NE(strstr(text.cStr(), "size"), nullptr) << text.cStr();
}

TEST_F(Disks, OnlyAnIsoIsOne) {
  EXPECT_TRUE(isIso9660(write("iso", 32769, "CD001")));
  EXPECT_FALSE(isIso9660(write("short", 32769, "CD0")));
  EXPECT_FALSE(isIso9660(write("other", 32770, "CD001")));
  EXPECT_TRUE(kj::runCatchingExceptions([&] { isIso9660(kj::str(folder, "/none")); }) != nullptr);
}

}  // namespace
}  // namespace talos::cluster
