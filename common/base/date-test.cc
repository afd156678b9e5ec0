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

}  // namespace
}  // namespace talos
