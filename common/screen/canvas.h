// A screen in memory: rows of cells, each one character and a look. A program draws every picture
// completely and then writes it as plain text, as the changes of a terminal since the picture
// before (ECMA-48, xterm's control sequences), or as an SVG for documents. Pure.
//
// Rows and columns count from 0. Nothing is drawn outside: text is cut at the edge. Foreign text
// may be drawn: a control character, invalid UTF-8 and characters that are not one column wide
// become '?'.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/screen/look.h"

namespace talos {

class Canvas {
 public:
  Canvas(size_t rows, size_t columns);

  size_t rows() const { return rowCount; }
  size_t columns() const { return columnCount; }

  // Returns the column after the text. Draws at most `width` columns; `limit` cuts with '…'.
  size_t put(size_t row, size_t column, kj::StringPtr text, Look look = Look::kPlain,
             size_t width = kj::maxValue);
  // Draws a text whose last character is in the column before `end`.
  void putRight(size_t row, size_t end, kj::StringPtr text, Look look = Look::kPlain);
  // Draws one character over a part of a row.
  void fill(size_t row, size_t column, size_t width, char32_t character, Look look = Look::kPlain);
  // Replaces the first character, for a font that does not have it.
  void substitute(char32_t from, char32_t to);
  // Changes the look of cells that are drawn already.
  void paint(size_t row, size_t column, size_t width, Look look);
  // Draws a bar of `width` cells in eighths of a cell, with a full part of `share` (0 to 1); the
  // rest is dotted.
  void bar(size_t row, size_t column, size_t width, double share, Look look);
  // Draws the newest values at the right, each as one cell of eight heights, relative to `most`.
  void sparkline(size_t row, size_t column, size_t width, kj::ArrayPtr<const double> values,
                 double most, Look look);

  // Copies rows of another canvas, from the left edge.
  void place(const Canvas& from, size_t fromRow, size_t rows, size_t row, size_t column);

  // Returns lines without blanks at their ends, each ended by a newline; no empty rows at the end.
  kj::String text() const;
  // Returns the sequences that change a terminal from `before` to this canvas; the whole canvas
  // without `before`, or if it has another size.
  kj::String ansi(kj::Maybe<const Canvas&> before, Colors colors) const;
  kj::String svg(kj::StringPtr title) const;

 private:
  struct Cell {
    char32_t character = ' ';
    Look look = Look::kPlain;
    bool operator==(const Cell&) const = default;
  };
  size_t rowCount, columnCount;
  kj::Array<Cell> cells;

  static size_t endOfWords(kj::ArrayPtr<const Cell> line, size_t from);
  kj::ArrayPtr<Cell> row(size_t number);
  kj::ArrayPtr<const Cell> row(size_t number) const;
};

// Returns the number of columns of the text.
size_t columnsOf(kj::StringPtr text);

}  // namespace talos
