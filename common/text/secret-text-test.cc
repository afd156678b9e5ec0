#include "common/text/secret-text.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

// Catches: a secret of which only the first occurrence is hidden; the token without its scheme,
// which stays; an empty value that hides everything.
TEST(SecretText, HidesEachOccurrence) {
  EXPECT_STREQ("*** and ***", withoutSecret("ab and ab", "ab").cStr());
  EXPECT_STREQ("a***b", withoutSecret("a12b", "12").cStr());
  EXPECT_STREQ("abc", withoutSecret("abc", "").cStr());
  EXPECT_STREQ("", withoutSecret("", "a").cStr());
  EXPECT_STREQ("*** or ***", withoutHeaderValue("Bearer 123 or 123", "Bearer 123").cStr());
  EXPECT_STREQ("123", withoutHeaderValue("123", "Bearer ").cStr());
}

}  // namespace
}  // namespace talos
