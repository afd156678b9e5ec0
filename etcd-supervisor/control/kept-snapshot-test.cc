#include "etcd-supervisor/control/kept-snapshot.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <string>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/testing/test-tree.h"

namespace talos::supervisor {
namespace {

struct KeptSnapshotTest : testing::Test {
  ~KeptSnapshotTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  machined::TestTree tree;
  KeptSnapshot kept{tree.root};

  void write(rpc::Etcd::SnapshotUpload::Client& to, std::string bytes) {
    auto request = to.writeRequest();
    request.setBytes(kj::arrayPtr(bytes.data(), bytes.size()).asBytes());
    request.send().wait(io.waitScope);
  }
  uint64_t finish(rpc::Etcd::SnapshotUpload::Client& upload) {
    return upload.doneRequest().send().wait(io.waitScope).getSize();
  }
  std::string read(rpc::ByteSource::Client& source, uint64_t offset, uint32_t size) {
    auto request = source.readRequest();
    request.setOffset(offset);
    request.setSize(size);
    auto answer = request.send().wait(io.waitScope);
    return std::string(answer.getBytes().asChars().begin(), answer.getBytes().size());
  }
  std::string refusal() {
    auto e = kj::runCatchingExceptions([&] { kept.take(); });
    KJ_IF_MAYBE (x, e) return kj::str(nameOf(kindOf(*x)), ": ", messageOf(*x)).cStr();
    return "";
  }
};

// Catches: bytes that are lost or in another order, a size that is not theirs, a piece behind the
// end, pieces that are larger than a reader may be sent.
TEST_F(KeptSnapshotTest, WhatWasSentIsRead) {
  auto upload = kept.upload();
  std::string large(100'000, 'x');
  write(upload, "abc");
  write(upload, large);
  write(upload, "end");
  EXPECT_EQ(100'006u, finish(upload));
  auto file = kept.take();
  EXPECT_EQ(100'006u, file.size);
  auto source = sourceOf(kj::mv(file.fd));
  EXPECT_EQ("abcx", read(source, 0, 4));
  EXPECT_EQ("xend", read(source, 100'002, 100));
  EXPECT_EQ(64u << 10, read(source, 0, 1u << 20).size());
  EXPECT_EQ("", read(source, 200'000, 10));
}

// Catches: half a snapshot that is restored; one that is restored twice; secrets that stay on the
// disk.
TEST_F(KeptSnapshotTest, OnlyAWholeOneAndOnce) {
  auto none =
      "FailedPrecondition: this node has no snapshot: none was sent since etcd-supervisor started, "
      "or a bootstrap has used it; send it again";
  EXPECT_EQ(none, refusal());
  {
    auto half = kept.upload();
    write(half, "half");
    EXPECT_EQ(none, refusal());
  }
  EXPECT_EQ(none, refusal());
  auto first = kept.upload(), second = kept.upload();
  write(first, "first");
  write(second, "second one");
  finish(first);
  finish(second);
  auto late = kj::runCatchingExceptions([&] { finish(second); });
  EXPECT_EQ("the upload has ended", messageOf(KJ_ASSERT_NONNULL(late)));
  EXPECT_EQ(10u, kept.take().size);
  EXPECT_EQ(none, refusal());
  EXPECT_EQ(0u, namesIn(tree.root).size());
  auto last = kept.upload();
  finish(last);
  kept.drop();
  EXPECT_EQ(none, refusal());
}

}  // namespace
}  // namespace talos::supervisor
