#include "common/screen/canvas.h"

#include <gmock/gmock.h>

namespace talos {
namespace {

TEST(Canvas, TextIsCutAtItsWidthAndSaysSo) {
  Canvas canvas(2, 10);
  EXPECT_EQ(canvas.put(0, 0, "abcdef", Look::kPlain, 4), 4u);
  canvas.put(0, 8, "wxyz");
  canvas.putRight(1, 10, "end");
  EXPECT_EQ(canvas.text(), "abc…    w…\n       end\n"_kj);
}

TEST(Canvas, NothingIsDrawnOutside) {
  Canvas canvas(1, 3);
  canvas.put(1, 0, "x");
  canvas.put(0, 3, "x");
  canvas.fill(0, 2, 9, U'#');
  canvas.fill(7, 0, 1, U'#');
  canvas.putRight(0, 2, "long");
  EXPECT_EQ(canvas.text(), "l…#\n"_kj);
}

// A node's log may hold a sequence that would move the cursor, and characters of two columns would
// move the rest of the line.
TEST(Canvas, ForeignTextCannotMoveTheCursor) {
  Canvas canvas(1, 8);
  canvas.put(0, 0, "a\x1b[2J\xff\n世");
  EXPECT_EQ(canvas.text(), "a?[2J???\n"_kj);
  EXPECT_EQ(columnsOf("aé世"), 3u);
}

TEST(Canvas, ABarShowsThatALittleIsNotNothing) {
  Canvas canvas(4, 4);
  canvas.bar(0, 0, 4, 0, Look::kGood);
  canvas.bar(1, 0, 4, 0.001, Look::kGood);
  canvas.bar(2, 0, 4, 0.5, Look::kGood);
  canvas.bar(3, 0, 4, 7, Look::kBad);
  EXPECT_EQ(canvas.text(), "····\n▏···\n██··\n████\n"_kj);
}

TEST(Canvas, ASparklineEndsAtTheRight) {
  Canvas canvas(1, 5);
  double values[] = {9, 0, 5, 10};
  canvas.sparkline(0, 0, 3, values, 10, Look::kPlain);
  EXPECT_EQ(canvas.text(), "▁▅█\n"_kj);
  Canvas more(1, 5);
  more.sparkline(0, 0, 5, values, 0, Look::kPlain);
  EXPECT_EQ(more.text(), " ▁▁▁▁\n"_kj);
}

TEST(Canvas, RowsOfAnotherAreCutAtEveryEdge) {
  Canvas tall(3, 4), canvas(2, 5);
  tall.put(1, 0, "abcd");
  tall.put(2, 0, "efgh");
  canvas.place(tall, 1, 9, 0, 2);
  EXPECT_EQ(canvas.text(), "  abc\n  efg\n"_kj);
  canvas.place(tall, 3, 1, 0, 0);
  canvas.place(tall, 1, 1, 2, 0);
  canvas.place(tall, 1, 1, 0, 5);
  EXPECT_EQ(canvas.text(), "  abc\n  efg\n"_kj);
}

TEST(Canvas, OnlyChangedCellsAreWritten) {
  Canvas before(2, 6), after(2, 6);
  before.put(0, 0, "cpu 10");
  after.put(0, 0, "cpu 12");
  after.put(1, 2, "!", Look::kBad);
  EXPECT_EQ(after.ansi(before, Colors::kAnsi), "\x1b[1;6H\x1b[0m2\x1b[2;3H\x1b[0;1;31m!\x1b[0m"_kj);
  EXPECT_EQ(after.ansi(after, Colors::kAnsi), ""_kj);
  EXPECT_EQ(after.ansi(before, Colors::kNone), "\x1b[1;6H\x1b[0m2\x1b[2;3H\x1b[0;1m!\x1b[0m"_kj);
  // The cursor is moved over cells that stay between two changes.
  Canvas both(2, 6);
  both.put(0, 0, "CPU 34");
  both.put(1, 2, "!", Look::kBad);
  EXPECT_EQ(both.ansi(after, Colors::kAnsi), "\x1b[1;1H\x1b[0mCPU\x1b[1;5H34"_kj);
}

TEST(Canvas, AnotherSizeIsDrawnWhole) {
  Canvas before(2, 6), after(1, 3);
  after.put(0, 1, "x");
  EXPECT_EQ(after.ansi(before, Colors::kAnsi), "\x1b[0m\x1b[2J\x1b[1;2Hx"_kj);
}

TEST(Canvas, APictureForDocumentsEscapesItsText) {
  Canvas canvas(1, 4);
  canvas.put(0, 0, "<&", Look::kSelected);
  auto svg = canvas.svg("a<b");
  EXPECT_THAT(svg.cStr(), testing::HasSubstr("<title>a&lt;b</title>"));
  EXPECT_THAT(svg.cStr(), testing::HasSubstr("class=\"s\">&lt;&amp;</text>"));
}

// Fonts are not exactly as wide as cells, so texts that are aligned below each other must be placed
// separately.
TEST(Canvas, WordsOfAPictureKeepTheirColumns) {
  Canvas canvas(1, 12);
  canvas.put(0, 0, "a b");
  canvas.put(0, 6, "c  d");
  auto svg = canvas.svg("");
  EXPECT_THAT(svg.cStr(),
              testing::HasSubstr("x=\"10\" y=\"23\" textLength=\"24\" class=\"p\">a b<"));
  EXPECT_THAT(svg.cStr(), testing::HasSubstr("x=\"58\" y=\"23\" textLength=\"8\" class=\"p\">c<"));
  EXPECT_THAT(svg.cStr(), testing::HasSubstr("x=\"82\" y=\"23\" textLength=\"8\" class=\"p\">d<"));
}

}  // namespace
}  // namespace talos
