#include "machined/disk/volumes/format-marks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/devices/test-sysfs.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

// A machine whose META is a file.
struct FormatMarksTest : testing::Test {
  Sysfs sys;
  TestTree dev;
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ReadPool pool{timer, {.threads = 2, .mostThreads = 2}, [](kj::StringPtr) {}};
  MetaPartition meta{timer, sys.root, dev.root};
  MetaFormatMarks marks{pool, meta};

  FormatMarksTest() { sys.disk("vda", "8192\n"); }
  ~FormatMarksTest() noexcept override {}
  void makeMeta() {
    sys.partition("vda", "vda4", "META");
    dev.file("vda4", "");
    ASSERT_EQ(0, truncate(dev.at("vda4").cStr(), kMetaBytes));
  }
  bool has(kj::StringPtr label, uint64_t begin) {
    return MetaFormatMarks(pool, meta).has(label, begin).wait(io.waitScope);
  }
  bool set(kj::StringPtr label, uint64_t begin) {
    return marks.set(label, begin).wait(io.waitScope);
  }
};

// Catches: a mark that another start does not find, or finds for another partition; a mark that
// stays.
TEST_F(FormatMarksTest, OutlastTheMachine) {
  makeMeta();
  EXPECT_FALSE(has("STATE", 7));
  EXPECT_TRUE(set("STATE", 7));
  EXPECT_TRUE(has("STATE", 7));
  EXPECT_FALSE(has("STATE", 70)) << "the partition is somewhere else";
  EXPECT_FALSE(has("EPHEMERAL", 7));
  EXPECT_TRUE(set("EPHEMERAL", 9));
  marks.clear("STATE").wait(io.waitScope);
  EXPECT_FALSE(has("STATE", 7));
  EXPECT_TRUE(has("EPHEMERAL", 9));
  marks.clear("STATE").wait(io.waitScope);  // again, after a crash
}

// Catches: a node without META that does not boot; a mark that is overlooked once, because META did
// not answer, and followed by a later boot; a partition that is formatted although the mark could
// not be written.
TEST_F(FormatMarksTest, AreNotThereWithoutMeta) {
  EXPECT_FALSE(has("STATE", 7));
  EXPECT_FALSE(set("STATE", 7));
  auto refuses = [&](kj::StringPtr problem) {
    auto failure = kj::runCatchingExceptions([&]() { has("EPHEMERAL", 7); });
    EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
                HasSubstr(kj::str("whether EPHEMERAL was formatted to the end is not known: META: ",
                                  problem)
                              .cStr()));
    EXPECT_ANY_THROW(set("EPHEMERAL", 7));
    EXPECT_ANY_THROW(marks.clear("EPHEMERAL").wait(io.waitScope));
  };
  sys.partition("vda", "vda4", "META");  // and no device node of it
  refuses("cannot open ");
  dev.file("vda4", "too small");
  refuses(kj::str(dev.at("vda4"), " has 9 bytes"));
  sys.partition("vda", "vda5", "META");
  refuses("more than one partition is named META");
}

}  // namespace
}  // namespace talos::machined
