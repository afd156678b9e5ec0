#include "common/text/plain-text.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

TEST(PlainText, IsWhatATerminalShows) {
  for (auto text : {"", "a b~", "größe", "日本", "\xf0\x9f\x98\x80"}) {
    EXPECT_TRUE(isPlainText(text)) << text;
  }
}

// Catches: a sequence that a terminal obeys, and a text that is read in another order than it has.
TEST(PlainText, IsNotWhatATerminalInterprets) {
  for (auto text : {"a\n",
                    "\t",
                    "\x1b[2J",
                    "\x7f",
                    "\xc2\x9b",
                    "\xe2\x80\xae",
                    "\xe2\x80\x8f",
                    "\xe2\x80\xa8",
                    "\xe2\x81\xa6",
                    "\xd8\x9c",
                    "\xff",
                    "\xc0\x80",
                    "\xe2\x80",
                    "\xed\xa0\x80",
                    "\xf4\x90\x80\x80",
                    "\xe0\x9f\xbf",
                    "\xf0\x8f\xbf\xbf",
                    "\xe2\x80\x8b",
                    "\xef\xbb\xbf",
                    "\xc2\xad"}) {
    EXPECT_FALSE(isPlainText(text));
    EXPECT_FALSE(isPlainText(kj::str("abc", text)));
  }
}

// Catches: an escaped character of which the rest is shown.
TEST(PlainText, ACharacterIsEscapedWhole) {
  EXPECT_EQ(firstCharacter("\xe2\x80\xae"_kj.asBytes()).bytes, 3u);
  EXPECT_EQ(firstCharacter("\xe2\x80"_kj.asBytes()).bytes, 1u);
}

// Catches: a first byte that announces another length than follows.
TEST(PlainText, WritesWhatItReads) {
  for (uint32_t code : {0x41u, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xffffu, 0x10000u, 0x10ffffu}) {
    Utf8 written(code);
    auto read = firstCharacter(written.asPtr().asBytes());
    EXPECT_TRUE(read.valid) << code;
    EXPECT_EQ(read.code, code);
    EXPECT_EQ(read.bytes, written.asPtr().size());
  }
}

}  // namespace
}  // namespace talos
