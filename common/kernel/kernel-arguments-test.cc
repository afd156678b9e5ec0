#include "common/kernel/kernel-arguments.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

kj::String get(const KernelArguments& a, kj::StringPtr key) {
  KJ_IF_MAYBE (v, a.first(key)) return kj::str("[", *v, "]");
  return kj::str("none");
}

KernelArguments parse(kj::StringPtr text) {
  return KernelArguments(text.asArray());
}

// Catches: a split at a later '=' (URLs have them), a bare key that is lost, the newline in a
// value.
TEST(KernelArguments, KeysAndValues) {
  auto a = parse("talos.config=http://h/c?uuid=1&x=2  quiet\tpanic=0\n");
  EXPECT_EQ("[http://h/c?uuid=1&x=2]", get(a, "talos.config"));
  EXPECT_EQ("[]", get(a, "quiet"));
  EXPECT_EQ("[0]", get(a, "panic"));
  EXPECT_EQ("none", get(a, "talos"));
}

// Catches: the last of several values winning, or the others being forgotten.
TEST(KernelArguments, RepeatedKeysKeepTheirOrder) {
  auto a = parse("console=ttyS0 console=tty0");
  EXPECT_EQ("[ttyS0]", get(a, "console"));
  EXPECT_TRUE(a.contains("console", "tty0"));
  EXPECT_FALSE(a.contains("console", "tty1"));
}

// Catches: reading past the end of strange input.
TEST(KernelArguments, StrangeInput) {
  EXPECT_EQ("none", get(parse(""), ""));
  EXPECT_EQ("none", get(parse("   \n"), ""));
  EXPECT_EQ("[b=c]", get(parse("=b=c"), ""));
  EXPECT_EQ("[]", get(parse("a="), "a"));
}

}  // namespace
}  // namespace talos
