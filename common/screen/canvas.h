// A screen in memory: rows of cells, each one character and a look. It is drawn anew for every
// picture and then written as plain text, as what changes a terminal from the picture before
// (ECMA-48, xterm's control sequences), or as an SVG for documents. Pure.
//
// Rows and columns count from 0. Nothing is drawn outside: text is cut at the edge. Foreign text
// may be drawn: a control character, invalid UTF-8 and what is not one column wide become '?'.
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

  // Returns the column after the text. At most `width` columns of it; `limit` cuts with '…'.
  size_t put(size_t row, size_t column, kj::StringPtr text, Look look = Look::kPlain,
             size_t width = kj::maxValue);
  // So that its last character is in the column before `end`.
  void putRight(size_t row, size_t end, kj::StringPtr text, Look look = Look::kPlain);
  // One character over a part of a row.
  void fill(size_t row, size_t column, size_t width, char32_t character, Look look = Look::kPlain);
  // For a font that does not have the first one.
  void substitute(char32_t from, char32_t to);
  // Changes the look of cells that are drawn already.
  void paint(size_t row, size_t column, size_t width, Look look);
  // A bar of `width` cells in eighths of a cell, `share` of 0 to 1 full; the rest is dotted.
  void bar(size_t row, size_t column, size_t width, double share, Look look);
  // The newest values at the right, each one cell of eight heights, relative to `most`.
  void sparkline(size_t row, size_t column, size_t width, kj::ArrayPtr<const double> values,
                 double most, Look look);

  // Rows of another canvas, from the left edge.
  void place(const Canvas& from, size_t fromRow, size_t rows, size_t row, size_t column);

  // Lines without blanks at their ends, each ended by a newline; no empty rows at the end.
  kj::String text() const;
  // The sequences by which a terminal that shows `before` shows this; all of it without one, or
  // when it has another size.
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

// Columns that the text takes.
size_t columnsOf(kj::StringPtr text);

}  // namespace talos
