// Tables and titles in a part of a canvas. Pure.
#pragma once

#include "common/screen/canvas.h"
#include "talosctl/dashboard/view.h"

namespace talos::talosctl::dashboard {

// A rectangle of a canvas. Rows and columns count from its corner; nothing is drawn outside.
class Area {
 public:
  Area(Canvas& canvas, size_t row, size_t column, size_t rows, size_t columns)
      : canvas(canvas), top(row), left(column), rowCount(rows), columnCount(columns) {}
  explicit Area(Canvas& canvas) : Area(canvas, 0, 0, canvas.rows(), canvas.columns()) {}

  size_t rows() const { return rowCount; }
  size_t columns() const { return columnCount; }
  Area part(size_t row, size_t column, size_t rows, size_t columns) const;
  // Returns the area without its first rows.
  Area below(size_t rows) const { return part(rows, 0, rowCount, columnCount); }

  size_t put(size_t row, size_t column, kj::StringPtr text, Look look = Look::kPlain,
             size_t width = kj::maxValue);
  void putRight(size_t row, size_t end, kj::StringPtr text, Look look = Look::kPlain);
  void bar(size_t row, size_t column, size_t width, double share, Look look);
  void sparkline(size_t row, size_t column, size_t width, kj::ArrayPtr<const double> values,
                 double most, Look look);
  void paint(size_t row, Look look);
  // Copies as many rows of the canvas as fit.
  void place(const Canvas& from, size_t fromRow);
  // Draws a line with a title in it.
  void title(size_t row, kj::StringPtr text, bool focused = false);

 private:
  Canvas& canvas;
  size_t top, left, rowCount, columnCount;
};

struct SheetColumn {
  kj::StringPtr title;
  unsigned rank = 0;  // columns of the lowest rank are shown first, as far as they fit
  // Largest width. The last column shown takes the remaining width, so a long text at the end of a
  // row does not displace other columns.
  size_t most = 40;
  bool right = false;  // right-aligned
  // Least width, so that a column with changing texts does not move the others.
  size_t least = 0;
};
struct SheetCell {
  kj::String text;
  Look look = Look::kPlain;
  double share = -1;  // length of a bar before the text; negative: no bar
};

class Sheet {
 public:
  Sheet(std::initializer_list<SheetColumn> columns);

  void row(kj::Array<SheetCell> cells);
  template <typename... Cells>
  void add(Cells&&... cells) {
    row(kj::arr(cellOf(kj::fwd<Cells>(cells))...));
  }

  size_t size() const { return rows.size(); }
  // Removes rows without this text in any of their cells.
  void keep(kj::StringPtr filter);
  // Returns the index of a row among all rows that were added.
  size_t numberOf(size_t row) const { return rows[row].number; }
  // Returns the text of a cell; empty if there is no such row.
  kj::StringPtr textAt(size_t row, size_t column) const;
  // Draws the sheet with a header; the `selected` row is shown in reverse, and always visible.
  void draw(Area area, kj::Maybe<size_t> selected) const;

 private:
  struct Row {
    kj::Array<SheetCell> cells;
    size_t number;
  };
  kj::Vector<SheetColumn> columns;
  kj::Vector<Row> rows;

  static SheetCell cellOf(SheetCell cell) { return cell; }
  static SheetCell cellOf(kj::String text) { return {kj::mv(text)}; }
  static SheetCell cellOf(kj::StringPtr text) { return {kj::str(text)}; }
  static SheetCell cellOf(const char* text) { return {kj::str(text)}; }
  kj::Vector<size_t> widthsFor(size_t room) const;
};

// Returns true if the text contains the part; ignores case.
bool containsIgnoringCase(kj::StringPtr text, kj::StringPtr part);

}  // namespace talos::talosctl::dashboard
