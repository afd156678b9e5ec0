#include "common/extension/version-range.h"

#include <gtest/gtest.h>

namespace talos::extension {
namespace {

struct Row {
  kj::StringPtr version, range;
  bool in;
};

// Catches: an extension that is refused for a version that its manifest names, or loaded for one
// that it does not name.
TEST(VersionRange, SaysWhichVersionsAreIn) {
  const Row kRows[] = {
      {"v0.100.0", "", true},
      {"v0.100.0", "  ", true},
      {"v0.100.0", ">= v0.100.0", true},
      {"v0.100.0", ">=0.99.9", true},
      {"v0.100.0", "> v0.100.0", false},
      {"v0.100.1", "> v0.100.0", true},
      {"v0.100.0", "< v0.99.0", false},  // numbers, not texts
      {"v0.100.0", ">= v1.0.0", false},
      {"v1.13.2", ">= v1.13.0 < v1.15.0", true},
      {"v1.15.0", ">= v1.13.0 < v1.15.0", false},
      {"v1.15.0", ">= v1.13.0 < v1.15.0 || v2.x", false},
      {"v2.7.1", ">= v1.13.0 < v1.15.0 || v2.x", true},
      {"v2.7.1", "2.7.x", true},
      {"v2.8.0", "2.7.x", false},
      {"v2.7.1", "2.7.1", true},
      {"v2.7.1", "!=2.7.1", false},
      {"v2.7.1", "= 2.7.1", true},
      {"v2.7.1", "==2.7.2", false},
      {"v2.7.1", "<= 2.7.1", true},
      {"v2.7.1", ">2.7.0<2.7.2", true},
      // A pre-release of the running version does not count; one in the range is below its release.
      {"v1.13.0-beta.1", ">= v1.13.0", true},
      {"v1.13.0", ">= v1.13.0-alpha.0", true},
      {"v1.13.0", "< v1.13.0-rc.1", false},
      {"v1.13.0+site", "1.13.0", true},
  };
  for (auto& row : kRows) {
    auto result = isInRange(row.version, row.range);
    ASSERT_TRUE(result != nullptr) << row.version.cStr() << " in " << row.range.cStr();
    EXPECT_EQ(KJ_ASSERT_NONNULL(result), row.in)
        << row.version.cStr() << " in " << row.range.cStr();
  }
}

// Catches: a mistake in a range that is taken for a range with every version, or with none.
TEST(VersionRange, FindsMistakes) {
  for (auto range : {"1"_kj, "1.2"_kj, "x"_kj, ">="_kj, "latest"_kj, ">= v1.0.0 <"_kj, "~1.2.3"_kj,
                     "||"_kj, "1.0.0 ||"_kj, "=> 1.0.0"_kj, "1.2.3.4"_kj, "1.x.3"_kj, "1.2.3-"_kj,
                     "9999999999999999999.0.0"_kj, "1.0.0 , 2.0.0"_kj}) {
    EXPECT_TRUE(isInRange("v1.0.0", range) == nullptr) << range.cStr();
  }
  for (auto version : {""_kj, "v1"_kj, "latest"_kj, "v1.x"_kj}) {
    EXPECT_TRUE(isInRange(version, ">= v1.0.0") == nullptr) << version.cStr();
  }
}

}  // namespace
}  // namespace talos::extension
