#include "machined/logs/history/boot-log-store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sys/stat.h>

#include <string>

#include "common/base/append-only-frames.h"
#include "common/testing/test-tree.h"
#include "machined/logs/history/test-full-disk.h"

namespace talos::machined {
namespace {

std::string textOf(const BootStore& store, kj::StringPtr boot, kj::StringPtr source) {
  KJ_IF_MAYBE (text, store.read(boot, source)) return std::string(text->begin(), text->size());
  return "none";
}

struct BootStoreTest : testing::Test {
  ~BootStoreTest() noexcept override {}
  TestTree tree;
  kj::String root = tree.at("boots");

  BootStore opened(kj::StringPtr boot) {
    BootStore store(root);
    store.begin(boot);
    return store;
  }
  std::string ids() {
    std::string all;
    for (auto& boot : BootStore(root).list()) all += std::string(boot.id.cStr()) + " ";
    return all;
  }
};

// Catches: lines that are lost or doubled when the brain restarts, and a boot that is started
// twice.
TEST_F(BootStoreTest, AnotherBrainGoesOn) {
  {
    auto store = opened("b1");
    EXPECT_EQ(0u, store.position("apid"));
    store.append("apid", 10, "one\n"_kj);
    store.note("began", "then");
    store.sync();
  }
  auto store = opened("b1");
  EXPECT_EQ(10u, store.position("apid"));
  store.append("apid", 20, "two\n"_kj);
  store.note("reason", "two\nlines");
  EXPECT_EQ("one\ntwo\n", textOf(store, "b1", "apid"));
  auto boots = store.list();
  ASSERT_EQ(1u, boots.size());
  EXPECT_EQ("then", boots[0].began);
  EXPECT_EQ("two lines", boots[0].reason);
  EXPECT_EQ(1u, boots[0].number);
  EXPECT_EQ("apid", kj::strArray(store.sources("b1"), " "));
}

// Catches: half a frame from a power cut that hides later frames, and damaged bytes that are read
// as a line.
TEST_F(BootStoreTest, WhatIsTornIsCutOff) {
  opened("b1").append("apid", 4, "one\n"_kj);
  auto path = kj::str(root, "/b1/apid.00000001");
  auto frame = frameOf(8, "two\n"_kj);
  kj::AutoCloseFd fd(::open(path.cStr(), O_WRONLY | O_APPEND));
  ASSERT_EQ(10, write(fd, frame.begin(), 10));
  auto store = opened("b1");
  EXPECT_EQ(4u, store.position("apid"));
  store.append("apid", 8, "two\n"_kj);
  EXPECT_EQ("one\ntwo\n", textOf(store, "b1", "apid"));
  kj::AutoCloseFd damage(::open(path.cStr(), O_WRONLY));
  ASSERT_EQ(1, pwrite(damage, "x", 1, kFrameHead));
  EXPECT_EQ("", textOf(store, "b1", "apid"));
}

// Catches: half a frame from a disk that was full for a moment, which hides later frames.
TEST_F(BootStoreTest, ADiskThatWasFullHidesNothing) {
  auto store = opened("b1");
  store.append("apid", 4, "one\n"_kj);
  {
    FileLimit full(kFrameHead + 4 + 10);
    EXPECT_ANY_THROW(store.append("apid", 8, "two\n"_kj));
  }
  EXPECT_EQ(4u, store.position("apid"));
  store.append("apid", 8, "two\n"_kj);
  EXPECT_EQ("one\ntwo\n", textOf(store, "b1", "apid"));
}

// Catches: a boot that counts as the oldest of all, because machined was killed when it had made
// only its folder.
TEST_F(BootStoreTest, AFolderAloneIsNoBootYet) {
  opened("b1");
  makeDirectories(kj::str(root, "/b2"), 0700);
  opened("b2");
  EXPECT_EQ("b1 b2 ", ids());
  EXPECT_EQ(2u, BootStore(root).list()[1].number);
}

// Catches: a source that grows without limit, or that loses its newest lines.
TEST_F(BootStoreTest, ASourceHasItsBound) {
  auto store = opened("b1");
  auto piece = kj::str(kj::repeat('x', 1023), "\n");
  for (uint64_t i = 1; i <= 1000; ++i) {
    store.append("apid", i * piece.size(), piece);
    store.append("audit", i * piece.size(), piece);
  }
  store.append("apid", 1'024'004, "end\n"_kj);
  auto apid = textOf(store, "b1", "apid"), audit = textOf(store, "b1", "audit");
  EXPECT_LE(apid.size(), kMostOfSource);
  EXPECT_GE(apid.size(), kMostOfSource / 2 - 4096);
  EXPECT_TRUE(apid.ends_with("end\n"));
  EXPECT_GE(audit.size(), kMostOfLargeSource / 2 - 8192);
  EXPECT_LE(audit.size(), kMostOfLargeSource);
  EXPECT_EQ(1'024'004u, opened("b1").position("apid"));
  for (unsigned i = 0; i < 50; ++i) store.append(kj::str("s", i), 1, "x\n"_kj);
  EXPECT_EQ(kMostSources - 1, store.sources("b1").size());  // and `boot`
}

// Catches: boots that fill the disk, a wrong boot that is removed, also after the clock was set
// back.
TEST_F(BootStoreTest, TheOldestBootGoesFirst) {
  for (char c = 'z'; c > 'z' - 10; --c) opened(kj::str(c)).append("apid", 1, "x"_kj);
  EXPECT_EQ("x w v u t s r q ", ids());
}

// Catches: a disk that a few large boots fill.
TEST_F(BootStoreTest, AllOfThemHaveABound) {
  for (auto boot : {"a", "b", "c"}) {
    opened(boot);
    auto path = kj::str(root, "/", boot, "/foreign.00000001");
    kj::AutoCloseFd fd(::open(path.cStr(), O_WRONLY | O_CREAT, 0600));
    ASSERT_EQ(0, ftruncate(fd, 8 << 20));
  }
  opened("d");
  EXPECT_EQ("b c d ", ids()) << "16 MiB are left";
}

// Catches: records that others may read, and names that lead out of the folder.
TEST_F(BootStoreTest, RecordsAreReadableByTheirOwnerOnly) {
  auto store = opened("b1");
  mode_t old = umask(0);
  KJ_DEFER(umask(old));
  store.append("apid", 1, "x"_kj);
  struct stat info;
  ASSERT_EQ(0, stat(kj::str(root, "/b1/apid.00000001").cStr(), &info));
  EXPECT_EQ(0600u, info.st_mode & 0777);
  ASSERT_EQ(0, stat(kj::str(root, "/b1").cStr(), &info));
  EXPECT_EQ(0700u, info.st_mode & 0777);
  store.append("../x", 1, "x"_kj);
  EXPECT_EQ("none", textOf(store, "b1", "../x"));
  EXPECT_EQ("none", textOf(store, "..", "x"));
  EXPECT_EQ("none", textOf(store, "b2", "apid"));
}

// Catches: a crash log that is stored with the boot that reads it.
TEST_F(BootStoreTest, ABootThatIsOverGetsItsLastWords) {
  opened("b1").append("apid", 1, "x"_kj);
  auto store = opened("b2");
  auto text = kj::str(kj::repeat('p', 100'000));
  store.appendTo("b1", kKernelCrashSource, text);
  store.noteOf("b1", "reason", "kernel panic");
  EXPECT_GE(textOf(store, "b1", kKernelCrashSource).size(), kMostOfSource / 2 - kMostPiece);
  EXPECT_EQ("none", textOf(store, "b2", kKernelCrashSource));
  EXPECT_EQ("kernel panic", store.list()[0].reason);
}

}  // namespace
}  // namespace talos::machined
