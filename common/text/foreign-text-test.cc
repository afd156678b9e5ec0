#include "common/text/foreign-text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/text/plain-text.h"

namespace talos {
namespace {

std::string escaped(kj::StringPtr text, Surface surface, size_t room = kj::maxValue) {
  kj::Vector<char> out;
  addEscaped(out, text, surface, room);
  return {out.begin(), out.size()};
}

// Catches: a character that a surface shows unescaped, or differently from the table of the header.
TEST(ForeignText, EachSurfaceHasOneForm) {
  struct Row {
    const char *text, *terminal, *log, *json, *field;
  };
  for (auto& row : std::vector<Row>{
           {"a b~ größe 日本", "a b~ größe 日本", "a b~ größe 日本", "a b~ größe 日本",
            "a b~ größe 日本"},
           {"\x1b[2J", "\\x1b[2J", "\\x1b[2J", "\\u001b[2J", "?[2J"},
           {"\x7f", "\\x7f", "\\x7f", "\\u007f", "?"},
           {"\xc2\x9b", "\\xc2\\x9b", "\\xc2\\x9b", "\\u009b", "?"},
           {"\xe2\x80\xae", "\\xe2\\x80\\xae", "\\xe2\\x80\\xae", "\\u202e", "?"},
           {"\xe2\x80\x8b", "\\xe2\\x80\\x8b", "\\xe2\\x80\\x8b", "\\u200b", "?"},
           {"\xef\xbb\xbf", "\\xef\\xbb\\xbf", "\\xef\\xbb\\xbf", "\\ufeff", "?"},
           {"a\n\t\r", "a\\x0a\\x09\\x0d", "a\\n\\x09\\x0d", "a\\n\\t\\r", "a   "},
           {"\"\\", "\"\\", "\\\"\\\\", "\\\"\\\\", "\"\\"},
           {"\xff\xe2\x80", "\\xff\\xe2\\x80", "\\xff\\xe2\\x80",
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "???"},
       }) {
    EXPECT_EQ(printable(row.text), row.terminal);
    EXPECT_EQ(escaped(row.text, Surface::kLog), row.log);
    EXPECT_EQ(escaped(row.text, Surface::kJson), row.json);
    EXPECT_EQ(fieldText(kj::StringPtr(row.text)), row.field);
  }
}

// Catches: a byte that no rule escapes, as the first or the second of two.
TEST(ForeignText, NoTwoBytesComeThrough) {
  for (unsigned two = 0; two < 0x10000; ++two) {
    char bytes[] = {static_cast<char>(two >> 8), static_cast<char>(two), 0};
    auto text = kj::heapString(bytes, 2);
    EXPECT_TRUE(isPlainText(printable(text))) << two;
    EXPECT_TRUE(isPlainText(fieldText(text))) << two;
    for (auto surface : {Surface::kLog, Surface::kJson}) {
      auto shown = escaped(text, surface);
      EXPECT_TRUE(isPlainText(kj::StringPtr(shown.data(), shown.size()))) << two;
    }
  }
}

// Catches: text of several lines that loses them, or a line end of a console that is shown.
TEST(ForeignText, TextKeepsItsLines) {
  EXPECT_EQ(printableText("a\tb\r\nc\rd\n\x1b"_kj), "a\tb\nc\\x0dd\n\\x1b");
  EXPECT_EQ(printableText("\r\n\r\n"_kj), "\n\n");
  auto once = printableText("\xc2\x9b\xff\n"_kj);
  EXPECT_EQ(printableText(once), once);
}

// Catches: an escape or a character that is cut in the middle, and more than there is room for.
TEST(ForeignText, ACutIsBetweenCharacters) {
  EXPECT_EQ(escaped("abcdef", Surface::kTerminal, 6), "abcdef");
  EXPECT_EQ(escaped("abcdefg", Surface::kTerminal, 6), "abc...");
  EXPECT_EQ(escaped("a\x1b\x1b", Surface::kTerminal, 8), "a\\x1b...");
  EXPECT_EQ(escaped("a\x1b\x1b", Surface::kTerminal, 7), "a...");
  EXPECT_EQ(escaped("abc", Surface::kTerminal, 2), "ab");
  EXPECT_EQ(escaped("\x1b", Surface::kTerminal, 2), "");
  EXPECT_EQ(fieldText("größe"_kj, 3), "gr");
  EXPECT_EQ(fieldText("größe"_kj, 4), "grö");
}

}  // namespace
}  // namespace talos
