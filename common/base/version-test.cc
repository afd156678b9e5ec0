#include "common/base/version.h"

#include <gtest/gtest.h>

namespace talos {

// Catches a build that lost its commit (an empty string in every bug report) or a date in another
// form.
TEST(Version, SaysWhatWasBuilt) {
  auto v = buildVersion();
  EXPECT_TRUE(v.tag.startsWith("v"));
  EXPECT_GE(v.sha.size(), 4u);
  ASSERT_EQ(v.built.size(), 20u);
  EXPECT_EQ(v.built[10], 'T');
  EXPECT_EQ(v.built[19], 'Z');
  EXPECT_TRUE(v.compiler.startsWith("clang 1"));
}

}  // namespace talos
