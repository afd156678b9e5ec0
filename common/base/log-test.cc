#include "common/base/log.h"

#include <gtest/gtest.h>

#include <regex>

#include "common/base/date.h"

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
  // A terminal that shows the log obeys these, too.
  EXPECT_STREQ(formatFields({{"v",
                              "\xc2\x9b"
                              "2J\xe2\x80\xae"},
                             {"w", "\xff"}})
                   .cStr(),
               "v=\"\\xc2\\x9b2J\\xe2\\x80\\xae\" w=\"\\xff\"");
}

// Catches: lines that run into each other, or that do not say when.
TEST(Log, WriteBeginsALineWithItsTimeAndEndsIt) {
  auto before = kj::systemPreciseCalendarClock().now();
  testing::internal::CaptureStderr();
  info("one", {{"n", 1}});
  warn("two");
  auto text = testing::internal::GetCapturedStderr();
  constexpr size_t kTime = sizeof("time=2026-11-20T12:07:35.042Z ") - 1;
  ASSERT_GT(text.size(), kTime);
  auto date = text.substr(5, kTime - 6);
  EXPECT_LE(std::string(dateTextMs(before).cStr()), date);
  EXPECT_LE(date, std::string(dateTextMs(kj::systemPreciseCalendarClock().now()).cStr()));
  auto plain = std::regex_replace(text, std::regex("time=\\S{24} "), "");
  EXPECT_EQ(plain, "level=info message=one n=1\nlevel=warning message=two\n");
  EXPECT_EQ(text.size(), plain.size() + 2 * kTime);
}

}  // namespace
}  // namespace talos::log
