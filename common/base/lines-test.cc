#include "common/base/lines.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

// Catches: an empty line that is lost, or added after the last line break.
TEST(Lines, OfAText) {
  struct Row {
    kj::StringPtr text, lines, first;
  };
  for (auto& row : {Row{"", "", ""}, Row{"a", "a|", "a"}, Row{"a\n", "a|", "a"},
                    Row{"a\n\nb", "a||b|", "a"}, Row{"\n", "|", ""}, Row{"\na\n\n", "|a||", ""}}) {
    kj::Vector<char> shown;
    for (auto& line : linesOf(row.text)) {
      shown.addAll(line);
      shown.add('|');
    }
    EXPECT_EQ(kj::heapString(shown.asPtr()), row.lines) << row.text.cStr();
    EXPECT_EQ(firstLine(row.text), row.first) << row.text.cStr();
  }
}

// Catches: a break within the text that is lost, and an empty text that is read before its start.
TEST(LastBreaks, AreCutOff) {
  auto cut = [](kj::StringPtr text) { return kj::str(withoutLastBreaks(text.asArray())); };
  EXPECT_STREQ(cut("a\nb\n\n").cStr(), "a\nb");
  EXPECT_STREQ(cut("a").cStr(), "a");
  EXPECT_STREQ(cut("\n\n").cStr(), "");
  EXPECT_STREQ(cut("").cStr(), "");
}

}  // namespace
}  // namespace talos
