#include "talosctl/cluster/node-disks.h"

#include <capnp/message.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "talosctl/cluster/cluster-plan.h"

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

// Catches: a state disk that is no XFS, has no label, holds on to the 64 MiB that mkfs reserves
// for its log, or that others may read.
TEST_F(Disks, TheStateDiskIsAnEmptyXfs) {
  makeDisks(cluster(), folder);
  auto path = kj::str(folder, "/n.state");
  kj::AutoCloseFd fd(open(path.cStr(), O_RDONLY));
  char block[512] = {};
  ASSERT_EQ(read(fd, block, sizeof block), ssize_t(sizeof block));
  EXPECT_EQ(memcmp(block, "XFSB", 4), 0);
  EXPECT_STREQ(block + 108, "STATE");  // sb_fname
  auto status = statusOf("n.state");
  EXPECT_EQ(status.st_size, off_t(kStateDiskBytes));
  EXPECT_LT(status.st_blocks * 512, 2 << 20);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(statusOf("n.disk").st_size, 64 << 20);
  EXPECT_EQ(statusOf("n.disk").st_blocks, 0);
}

// Catches: a failure of mkfs that is taken for success, or that does not say why.
TEST_F(Disks, WhatMkfsSaysIsInTheFailure) {
  auto c = cluster();
  c.getNodes()[0].setStateDisk(1 << 20);
  auto failure = kj::runCatchingExceptions([&] { makeDisks(c, folder); });
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
