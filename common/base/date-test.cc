#include "common/base/date.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

TEST(Date, TextAndBack) {
  struct Row {
    int64_t ms;
    kj::StringPtr text, withMs;
  };
  for (auto& row : {Row{0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"},
                    Row{1'795'176'455'042, "2026-11-20T12:07:35Z", "2026-11-20T12:07:35.042Z"},
                    Row{-1, "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.999Z"},
                    Row{4'102'444'800'000, "2100-01-01T00:00:00Z", "2100-01-01T00:00:00.000Z"}}) {
    auto date = kj::UNIX_EPOCH + row.ms * kj::MILLISECONDS;
    EXPECT_EQ(dateText(date), row.text);
    EXPECT_EQ(dateTextMs(date), row.withMs);
    if (row.ms % 1000 == 0) EXPECT_TRUE(KJ_ASSERT_NONNULL(parseDate(row.text)) == date);
  }
  for (auto wrong :
       {""_kj, "2026-11-20"_kj, "2026-11-20T12:07:35Zx"_kj, "none"_kj, "2263-01-01T00:00:00Z"_kj,
        "2262-04-11T23:47:16Z"_kj, "0001-01-01T00:00:00Z"_kj})
    EXPECT_TRUE(parseDate(wrong) == nullptr) << wrong.cStr();
}

// Catches: an offset that is added instead of taken off, a fraction of fewer digits that is too
// small, and half a time that is taken for one.
TEST(Timestamp, OtherProgramsForms) {
  struct Row {
    kj::StringPtr text, is;
  };
  for (auto& row : {Row{"2026-11-20T12:07:35Z", "2026-11-20T12:07:35.000Z"},
                    Row{"2026-11-20T12:07:35.5Z", "2026-11-20T12:07:35.500Z"},
                    Row{"2026-11-20T12:07:35.042999999Z", "2026-11-20T12:07:35.042Z"},
                    Row{"2026-11-20T12:07:35.0420000000000Z", "2026-11-20T12:07:35.042Z"},
                    Row{"2026-11-20T12:07:35+02:00", "2026-11-20T10:07:35.000Z"},
                    Row{"2026-11-20T23:37:35.25-03:30", "2026-11-21T03:07:35.250Z"}}) {
    EXPECT_EQ(dateTextMs(KJ_ASSERT_NONNULL(parseTimestamp(row.text))), row.is) << row.text.cStr();
  }
  for (auto wrong :
       {""_kj, "2026-11-20"_kj, "2026-11-20T12:07:35"_kj, "2026-11-20T12:07:35.Z"_kj,
        "2026-11-20T12:07:35+2:00"_kj, "2026-11-20T12:07:35+24:00"_kj,
        "2026-11-20T12:07:35+02:0x"_kj, "2026-11-20T12:07:35Zx"_kj, "2026-11-20T12:07:3Z5"_kj,
        "2263-01-01T00:00:00Z"_kj, "2026-13-20T12:07:35Z"_kj})
    EXPECT_TRUE(parseTimestamp(wrong) == nullptr) << wrong.cStr();
}

}  // namespace
}  // namespace talos
