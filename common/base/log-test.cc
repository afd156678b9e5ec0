#include "common/base/log.h"

#include <gtest/gtest.h>

namespace talos::log {
namespace {

// Catches: a value that forges a second line or a second field.
TEST(Log, ALineIsAlwaysOneLine) {
  EXPECT_STREQ(format(Level::kInfo, "listening", {{"address", "0.0.0.0:50000"}}).cStr(),
               "level=info message=listening address=0.0.0.0:50000");
  EXPECT_STREQ(format(Level::kError, "a b", {{"peer", "x\nlevel=info"}, {"n", 3}}).cStr(),
               "level=error message=\"a b\" peer=\"x\\nlevel=info\" n=3");
  EXPECT_STREQ(format(Level::kWarning, "", {{"v", "\x1b[31m\"q\\"}}).cStr(),
               "level=warning message=\"\" v=\"\\x1b[31m\\\"q\\\\\"");
}

// Catches: lines that run into each other.
TEST(Log, WriteEndsTheLine) {
  testing::internal::CaptureStderr();
  info("one", {{"n", 1}});
  warn("two");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "level=info message=one n=1\nlevel=warning message=two\n");
}

}  // namespace
}  // namespace talos::log
