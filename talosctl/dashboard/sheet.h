// Tables and titles in a part of a canvas. Pure.
#pragma once

#include "common/screen/canvas.h"
#include "talosctl/dashboard/view.h"

namespace talos::talosctl::dashboard {

// A rectangle of a canvas; rows and columns count from its corner, and nothing is drawn outside.
class Area {
 public:
  Area(Canvas& canvas, size_t row, size_t column, size_t rows, size_t columns)
      : canvas(canvas), top(row), left(column), rowCount(rows), columnCount(columns) {}
  explicit Area(Canvas& canvas) : Area(canvas, 0, 0, canvas.rows(), canvas.columns()) {}

  size_t rows() const { return rowCount; }
  size_t columns() const { return columnCount; }
  Area part(size_t row, size_t column, size_t rows, size_t columns) const;
  // Without the first rows.
  Area below(size_t rows) const { return part(rows, 0, rowCount, columnCount); }

  size_t put(size_t row, size_t column, kj::StringPtr text, Look look = Look::kPlain,
             size_t width = kj::maxValue);
  void putRight(size_t row, size_t end, kj::StringPtr text, Look look = Look::kPlain);
  void bar(size_t row, size_t column, size_t width, double share, Look look);
  void sparkline(size_t row, size_t column, size_t width, kj::ArrayPtr<const double> values,
                 double most, Look look);
  void paint(size_t row, Look look);
  // As many rows of it as there is room for.
  void place(const Canvas& from, size_t fromRow);
  // A line with a title in it.
  void title(size_t row, kj::StringPtr text, bool focused = false);

 private:
  Canvas& canvas;
  size_t top, left, rowCount, columnCount;
};

struct SheetColumn {
  kj::StringPtr title;
  unsigned rank = 0;  // those of the lowest rank are shown first, as far as there is room
  // Columns of the screen. The last one shown takes what is left, and a text at the end of a row
  // pushes none of the others away.
  size_t most = 40;
  bool right = false;  // aligned
  // As wide even when the text is shorter: one that changes all the time is not to move the others.
  size_t least = 0;
};
struct SheetCell {
  kj::String text;
  Look look = Look::kPlain;
  double share = -1;  // of a bar in front of the text; negative: none
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
  // Rows without the text, in any of their cells, are left out.
  void keep(kj::StringPtr filter);
  // The place of a row among all that were added.
  size_t numberOf(size_t row) const { return rows[row].number; }
  // The text of a cell; empty when there is no such row.
  kj::StringPtr textAt(size_t row, size_t column) const;
  // With a header; `selected` is shown in reverse, and always visible.
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

// Case does not matter.
bool containsText(kj::StringPtr text, kj::StringPtr part);

}  // namespace talos::talosctl::dashboard
