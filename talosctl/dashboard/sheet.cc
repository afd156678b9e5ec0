#include "talosctl/dashboard/sheet.h"

#include <algorithm>

#include "common/text/ascii.h"

namespace talos::talosctl::dashboard {

namespace {

constexpr size_t kGap = 2, kBar = 8;
constexpr size_t kLastColumn = 16;  // width to reserve for the last column, which gets the rest

// Returns false for a narrow table, which shows numbers without bars.
bool hasBars(size_t room) {
  constexpr size_t kNarrow = 100;
  return room >= kNarrow;
}

size_t widthOf(const SheetCell& cell, size_t room) {
  return columnsOf(cell.text) + (cell.share >= 0 && hasBars(room) ? kBar + 1 : 0);
}

}  // namespace

bool containsIgnoringCase(kj::StringPtr text, kj::StringPtr part) {
  auto same = [](char a, char b) {
    auto lower = [](char c) { return isUpper(c) ? char(c + ('a' - 'A')) : c; };
    return lower(a) == lower(b);
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end() ||
         part.size() == 0;
}

Area Area::part(size_t row, size_t column, size_t rows, size_t columns) const {
  row = kj::min(row, rowCount);
  column = kj::min(column, columnCount);
  return Area(canvas, top + row, left + column, kj::min(rows, rowCount - row),
              kj::min(columns, columnCount - column));
}

size_t Area::put(size_t row, size_t column, kj::StringPtr text, Look look, size_t width) {
  if (row >= rowCount || column >= columnCount) return column;
  width = kj::min(width, columnCount - column);
  return canvas.put(top + row, left + column, text, look, width) - left;
}

void Area::putRight(size_t row, size_t end, kj::StringPtr text, Look look) {
  auto width = columnsOf(text);
  put(row, end > width ? end - width : 0, text, look, end);
}

void Area::bar(size_t row, size_t column, size_t width, double share, Look look) {
  if (row >= rowCount || column >= columnCount) return;
  canvas.bar(top + row, left + column, kj::min(width, columnCount - column), share, look);
}

void Area::sparkline(size_t row, size_t column, size_t width, kj::ArrayPtr<const double> values,
                     double most, Look look) {
  if (row >= rowCount || column >= columnCount) return;
  canvas.sparkline(top + row, left + column, kj::min(width, columnCount - column), values, most,
                   look);
}

void Area::paint(size_t row, Look look) {
  if (row < rowCount) canvas.paint(top + row, left, columnCount, look);
}

void Area::place(const Canvas& from, size_t fromRow) {
  canvas.place(from, fromRow, rowCount, top, left);
}

void Area::title(size_t row, kj::StringPtr text, bool focused) {
  if (row >= rowCount) return;
  canvas.fill(top + row, left, columnCount, U'─', Look::kDim);
  auto end = put(row, 2, kj::str(" ", text, " "), focused ? Look::kTitle : Look::kAccent);
  if (focused) {
    put(row, 1, "┤", Look::kTitle);
    put(row, end, "├", Look::kTitle);
  }
}

Sheet::Sheet(std::initializer_list<SheetColumn> columns) {
  for (auto& one : columns) this->columns.add(one);
}

void Sheet::row(kj::Array<SheetCell> cells) {
  KJ_REQUIRE(cells.size() == columns.size());
  rows.add(Row{kj::mv(cells), rows.size()});
}

void Sheet::keep(kj::StringPtr filter) {
  if (filter.size() == 0) return;
  kj::Vector<Row> kept;
  for (auto& row : rows) {
    bool matches = false;
    for (auto& cell : row.cells) matches = matches || containsIgnoringCase(cell.text, filter);
    if (matches) kept.add(kj::mv(row));
  }
  rows = kj::mv(kept);
}

kj::StringPtr Sheet::textAt(size_t row, size_t column) const {
  return row < rows.size() ? kj::StringPtr(rows[row].cells[column].text) : ""_kj;
}

// Returns the width of each column; 0 for a column that is not shown.
kj::Vector<size_t> Sheet::widthsFor(size_t room) const {
  kj::Vector<size_t> natural, shown;
  for (auto i : kj::indices(columns)) {
    auto width = kj::max(columnsOf(columns[i].title), columns[i].least);
    bool empty = true;
    for (auto& row : rows) {
      width = kj::max(width, widthOf(row.cells[i], room));
      empty = empty && row.cells[i].text.size() == 0;
    }
    bool end = i + 1 == columns.size() && !columns[i].right;
    auto most = end ? kj::min(columns[i].most, kLastColumn) : columns[i].most;
    // An empty column would take width from columns with content.
    natural.add(empty && columns[i].rank > 0 ? 0 : kj::min(width, most));
    shown.add(0);
  }
  size_t used = 0;
  unsigned last = 0;
  for (auto& column : columns) last = kj::max(last, column.rank);
  for (unsigned rank = 0; rank <= last; ++rank) {
    for (auto i : kj::indices(columns)) {
      if (columns[i].rank != rank || natural[i] == 0) continue;
      auto gap = used > 0 ? kGap : 0;
      if (used + gap + natural[i] <= room) {
        shown[i] = natural[i];
        used += gap + natural[i];
      } else if (rank == 0 && room > used + gap) {
        shown[i] = room - used - gap;
        used = room;
      }
    }
  }
  return shown;
}

void Sheet::draw(Area area, kj::Maybe<size_t> selected) const {
  auto widths = widthsFor(area.columns());
  size_t lastShown = 0;
  for (auto i : kj::indices(widths)) {
    if (widths[i] > 0) lastShown = i;
  }
  auto each = [&](auto&& take) {
    size_t at = 0;
    for (auto i : kj::indices(widths)) {
      if (widths[i] == 0) continue;
      auto width = i == lastShown && !columns[i].right
                       ? area.columns() - kj::min(at, area.columns())
                       : widths[i];
      take(i, at, width);
      at += width + kGap;
    }
  };
  each([&](size_t i, size_t at, size_t width) {
    if (columns[i].right) {
      area.putRight(0, at + width, columns[i].title, Look::kDim);
    } else {
      area.put(0, at, columns[i].title, Look::kDim, width);
    }
  });
  if (area.rows() < 2) return;
  auto visible = area.rows() - 1;
  auto first = firstVisible(selected.orDefault(0), rows.size(), visible);
  for (size_t line = 0; line < visible && first + line < rows.size(); ++line) {
    auto& cells = rows[first + line].cells;
    each([&](size_t i, size_t at, size_t width) {
      auto& cell = cells[i];
      if (cell.share >= 0 && hasBars(area.columns())) {
        area.bar(line + 1, at, kj::min(kBar, width), cell.share, cell.look);
        area.put(line + 1, at + kBar + 1, cell.text, cell.look, width - kj::min(width, kBar + 1));
      } else if (columns[i].right) {
        area.putRight(line + 1, at + width, cell.text, cell.look);
      } else {
        area.put(line + 1, at, cell.text, cell.look, width);
      }
    });
    KJ_IF_MAYBE (chosen, selected) {
      if (*chosen == first + line) area.paint(line + 1, Look::kSelected);
    }
  }
}

}  // namespace talos::talosctl::dashboard
