#include "etcd-supervisor/control/kept-snapshot.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <mutex>
#include <string>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/testing/test-tree.h"
#include "common/testing/virtual-time.h"

namespace talos::supervisor {
namespace {

struct KeptSnapshotTest : testing::Test {
  ~KeptSnapshotTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  machined::TestTree tree;
  kj::TimerImpl clock{kj::origin<kj::TimePoint>()};
  DiskThread disk;
  KeptSnapshot::Options options{.reserve = {.percent = 0, .least = 0, .most = 0}};
  KeptSnapshot kept{clock, disk, tree.root, options};
  static constexpr const char* none =
      "FailedPrecondition: this node has no snapshot: none was sent since etcd-supervisor started, "
      "a bootstrap has used it, or it was kept for an hour; send it again";

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
  std::string refusalOf(kj::FunctionParam<void()> call) {
    auto e = kj::runCatchingExceptions([&] { call(); });
    KJ_IF_MAYBE (x, e) return kj::str(nameOf(kindOf(*x)), ": ", messageOf(*x)).cStr();
    return "";
  }
  std::string refusal() {
    return refusalOf([&] { kept.take(); });
  }
};

// Catches: bytes that are lost or out of order; a wrong size; a piece beyond the end; pieces larger
// than a reader accepts.
TEST_F(KeptSnapshotTest, KeptSnapshotIsReadAsSent) {
  auto upload = kept.upload();
  std::string large(100'000, 'x');
  write(upload, "abc");
  write(upload, large);
  write(upload, "end");
  EXPECT_EQ(100'006u, finish(upload));
  auto file = kept.take();
  EXPECT_EQ(100'006u, file.size);
  auto source = sourceOf(kj::mv(file.file));
  EXPECT_EQ("abcx", read(source, 0, 4));
  EXPECT_EQ("xend", read(source, 100'002, 100));
  EXPECT_EQ(64u << 10, read(source, 0, 1u << 20).size());
  EXPECT_EQ("", read(source, 200'000, 10));
}

// Catches: half a snapshot that is restored; a snapshot that is restored twice; secrets that stay
// on the disk.
TEST_F(KeptSnapshotTest, OnlyAWholeOneAndOnce) {
  EXPECT_EQ(none, refusal());
  {
    auto half = kept.upload();
    write(half, "half");
    EXPECT_EQ(none, refusal());
  }
  EXPECT_EQ(none, refusal());
  auto first = kept.upload();
  write(first, "first");
  finish(first);
  auto second = kept.upload();
  write(second, "second one");
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

// Catches: uploads that together fill the disk of etcd; an upload that keeps others out for ever.
TEST_F(KeptSnapshotTest, SecondUploadIsRefusedWhileOneRuns) {
  {
    auto first = kept.upload();
    EXPECT_EQ(
        "Conflict: another snapshot is being uploaded to this node; try again when that has "
        "ended, 60 s after its client went silent at the latest",
        refusalOf([&] { kept.upload(); }));
    write(first, "a");
    finish(first);
    auto second = kept.upload();
    write(second, "silent");
    advance(clock, io.waitScope, 59 * kj::SECONDS);
    EXPECT_NE("", refusalOf([&] { kept.upload(); }));
    advance(clock, io.waitScope, 2 * kj::SECONDS);
    kept.upload();
    EXPECT_EQ("FailedPrecondition: the upload has ended", refusalOf([&] { write(second, "b"); }));
  }
  EXPECT_EQ(1u, kept.take().size) << "what was whole before is kept";
}

// Catches: an endless upload that fills the disk; an upload that continues after it was refused.
TEST_F(KeptSnapshotTest, SizeAndReserveAreKept) {
  options.mostBytes = 10;
  KeptSnapshot small{clock, disk, tree.root, options};
  options.reserve.least = options.reserve.most = uint64_t{1} << 62;
  KeptSnapshot full{clock, disk, tree.root, options};
  auto upload = small.upload();
  write(upload, "0123456789");
  EXPECT_EQ("InvalidArgument: the snapshot is larger than 0 MiB",
            refusalOf([&] { write(upload, "x"); }));
  EXPECT_NE("", refusalOf([&] { finish(upload); }));
  upload = full.upload();
  auto refusal = refusalOf([&] { write(upload, "x"); });
  EXPECT_EQ(0u, refusal.find("ResourceExhausted: EPHEMERAL has no room for the snapshot: 1 MiB "
                             "more are needed, "))
      << refusal;
  upload = full.upload();
}

// Catches: a disk that takes its time, and a loop that stands meanwhile.
TEST_F(KeptSnapshotTest, TheLoopGoesOnWhileTheDiskIsSlow) {
  std::mutex slow;
  slow.lock();
  auto upload = kept.upload();
  disk.add([&]() { std::lock_guard until(slow); });
  auto request = upload.writeRequest();
  request.setBytes("abc"_kj.asBytes());
  auto written = request.send();
  io.provider->getTimer().afterDelay(10 * kj::MILLISECONDS).wait(io.waitScope);
  EXPECT_FALSE(written.poll(io.waitScope));
  advance(clock, io.waitScope, 120 * kj::SECONDS);  // which is not the client's silence
  slow.unlock();
  written.wait(io.waitScope);
  EXPECT_EQ(3u, finish(upload));
}

// Catches: the secrets of a cluster that lie on the disk until the next start.
TEST_F(KeptSnapshotTest, ItIsNotKeptForEver) {
  auto upload = kept.upload();
  finish(upload);
  advance(clock, io.waitScope, 59 * kj::MINUTES);
  auto again = kept.upload();
  finish(again);
  advance(clock, io.waitScope, 59 * kj::MINUTES);
  EXPECT_EQ(0u, kept.take().size);
  auto last = kept.upload();
  finish(last);
  advance(clock, io.waitScope, 61 * kj::MINUTES);
  EXPECT_EQ(none, refusal());
}

}  // namespace
}  // namespace talos::supervisor
