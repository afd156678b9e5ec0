#include "common/screen/drawn-text.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

// Catches: foreign text that is joined with sequences of ours before it is escaped.
TEST(DrawnText, HasNoSequencesButItsOwn) {
  DrawnText text("\x1b[2Ja\n\tb"_kj);
  text.add("\xc2\x9b"_kj, Look::kBad).add(DrawnText("\r"_kj)).up(2).toLineStart().clearToLineEnd();
  EXPECT_EQ(kj::str(text.asPtr()),
            "\\x1b[2Ja\n\tb\x1b[0;1;31m\\xc2\\x9b\x1b[0m\\x0d\x1b[2A\r\x1b[K"_kj);
}

// Catches: a canvas whose control characters are passed on.
TEST(DrawnText, OfACanvasIsItsCells) {
  Canvas canvas(1, 8);
  canvas.put(0, 0, "\x1b[2J", Look::kPlain);
  DrawnText text;
  text.add(canvas, Canvas(1, 8), Colors::kAnsi);
  EXPECT_EQ(kj::str(text.asPtr()), "\x1b[1;1H\x1b[0m?[2J"_kj);
}

}  // namespace
}  // namespace talos
