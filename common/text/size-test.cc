#include "common/text/size.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

namespace talos {
namespace {

// Catches: powers of 1024, a size that is rounded in the wrong direction or has the wrong unit,
// overflow.
TEST(DecimalSize, IsSi) {
  for (auto& [bytes, text] :
       std::initializer_list<std::pair<uint64_t, const char*>>{{0, "0 B"},
                                                               {999, "999 B"},
                                                               {1000, "1.0 kB"},
                                                               {9'949, "9.9 kB"},
                                                               {9'950, "10 kB"},
                                                               {9'960, "10 kB"},
                                                               {999'499, "999 kB"},
                                                               {999'500, "1.0 MB"},
                                                               {999'999, "1.0 MB"},
                                                               {1'048'576, "1.0 MB"},
                                                               {1'234'567, "1.2 MB"},
                                                               {82'854'982, "83 MB"},
                                                               {104'450'000, "104 MB"},
                                                               {104'857'600, "105 MB"},
                                                               {13'958'643'712, "14 GB"},
                                                               {UINT64_MAX, "18 EB"}}) {
    EXPECT_STREQ(decimalSize(bytes).cStr(), text);
  }
}

// Catches: a time in seconds that a reader has to divide; parts of zero.
TEST(TimeSpan, IsAsUsersTypeIt) {
  for (auto& [seconds, text] :
       std::initializer_list<std::pair<uint64_t, const char*>>{{0, "0s"},
                                                               {59, "59s"},
                                                               {60, "1m"},
                                                               {3600, "1h"},
                                                               {5405, "1h30m5s"},
                                                               {86400, "24h"},
                                                               {2592001, "720h1s"}}) {
    EXPECT_STREQ(timeSpan(seconds).cStr(), text);
  }
}

}  // namespace
}  // namespace talos
