#include "common/base/timestamp.h"

#include <gtest/gtest.h>

#include "common/base/date.h"

namespace talos {
namespace {

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
