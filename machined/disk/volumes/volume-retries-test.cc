#include "machined/disk/volumes/volume-retries.h"

#include <gtest/gtest.h>

namespace talos::machined {

// Catches: an attempt without a pause, a pause without an end, a new document that waits.
TEST(VolumeRetries, PausesDoubleUntilSomethingChanges) {
  VolumeRetries retries;
  auto now = kj::origin<kj::TimePoint>();
  EXPECT_TRUE(retries.endPass() == nullptr);
  for (auto wait : {30, 60, 120, 240, 480, 600, 600}) {
    retries.failed("u-data", "vdb", "no", now);
    EXPECT_EQ("no", retries.failure("u-data", "vdb", now + (wait - 1) * kj::SECONDS).orDefault(""));
    EXPECT_TRUE(retries.failure("u-data", "vdb", now + wait * kj::SECONDS) == nullptr);
    EXPECT_TRUE(retries.endPass() == now + wait * kj::SECONDS);
    now += wait * kj::SECONDS;
  }
  retries.failed("u-data", "vdb", "no", now);
  EXPECT_TRUE(retries.failure("u-data", "vdc", now) == nullptr);
  retries.failed("u-data", "vdc", "no", now);
  EXPECT_TRUE(retries.endPass() == now + 30 * kj::SECONDS);
  EXPECT_TRUE(retries.failure("u-data", "vdc", now) != nullptr);
  EXPECT_TRUE(retries.endPass() == now + 30 * kj::SECONDS);
  EXPECT_TRUE(retries.endPass() == nullptr) << "a volume without a document is due for ever";
  retries.failed("u-data", "vdc", "no", now);
  retries.succeeded("u-data");
  EXPECT_TRUE(retries.failure("u-data", "vdc", now) == nullptr);
}

}  // namespace talos::machined
