#include "common/screen/canvas.h"

#include <algorithm>
#include <cmath>

#include "common/text/plain-text.h"

namespace talos {

namespace {

constexpr char32_t kEllipsis = U'…';
constexpr char32_t kEighthsAcross[] = U" ▏▎▍▌▋▊▉█";
constexpr char32_t kEighthsUp[] = U"▁▂▃▄▅▆▇█";

// Characters that terminals show in two columns or in none (Unicode's East Asian Width and
// combining marks, by block).
bool isOneColumn(uint32_t code) {
  struct Range {
    uint32_t from, to;
  };
  constexpr Range kOthers[] = {
      {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},     {0x64b, 0x65f},
      {0x1100, 0x115f}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f},   {0x20d0, 0x20ff},
      {0x2e80, 0xa4cf}, {0xa960, 0xa97f}, {0xac00, 0xd7a3}, {0xf900, 0xfaff},   {0xfe00, 0xfe0f},
      {0xfe20, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f000, 0x1faff}, {0x20000, 0x10ffff},
  };
  for (auto& range : kOthers) {
    if (code >= range.from && code <= range.to) return false;
  }
  return true;
}

template <typename Take>
void eachCharacter(kj::StringPtr text, Take&& take) {
  auto rest = text.asBytes();
  while (rest.size() > 0) {
    auto first = firstCharacter(rest);
    bool shown = first.valid && first.plain && isOneColumn(first.code);
    if (!take(shown ? char32_t(first.code) : U'?')) return;
    rest = rest.slice(first.bytes, rest.size());
  }
}

kj::String stringOf(kj::Vector<char>&& characters) {
  characters.add('\0');
  return kj::String(characters.releaseAsArray());
}

kj::StringPtr svgClassOf(Look look) {
  constexpr kj::StringPtr kNames[] = {"p"_kj, "t"_kj, "d"_kj, "g"_kj,
                                      "w"_kj, "b"_kj, "a"_kj, "s"_kj};
  return kNames[size_t(look)];
}

void addEscaped(kj::Vector<char>& out, char32_t code) {
  switch (code) {
    case '<':
      out.addAll("&lt;"_kj);
      break;
    case '&':
      out.addAll("&amp;"_kj);
      break;
    default:
      out.addAll(Utf8(code).asPtr());
  }
}

kj::String escaped(kj::StringPtr text) {
  kj::Vector<char> out;
  eachCharacter(text, [&](char32_t code) {
    addEscaped(out, code);
    return true;
  });
  return stringOf(kj::mv(out));
}

}  // namespace

size_t columnsOf(kj::StringPtr text) {
  size_t count = 0;
  eachCharacter(text, [&](char32_t) { return ++count > 0; });
  return count;
}

Canvas::Canvas(size_t rows, size_t columns)
    : rowCount(rows), columnCount(columns), cells(kj::heapArray<Cell>(rows * columns)) {
  for (auto& cell : cells) cell = {};
}

kj::ArrayPtr<Canvas::Cell> Canvas::row(size_t number) {
  return cells.slice(number * columnCount, (number + 1) * columnCount);
}

kj::ArrayPtr<const Canvas::Cell> Canvas::row(size_t number) const {
  return cells.slice(number * columnCount, (number + 1) * columnCount);
}

size_t Canvas::put(size_t number, size_t column, kj::StringPtr text, Look look, size_t width) {
  if (number >= rowCount || column >= columnCount || width == 0) return column;
  auto end = column + kj::min(width, columnCount - column);
  auto line = row(number);
  eachCharacter(text, [&](char32_t character) {
    if (column == end) {
      line[end - 1].character = kEllipsis;
      return false;
    }
    line[column++] = {character, look};
    return true;
  });
  return column;
}

void Canvas::putRight(size_t number, size_t end, kj::StringPtr text, Look look) {
  auto width = columnsOf(text);
  put(number, end > width ? end - width : 0, text, look, end);
}

void Canvas::fill(size_t number, size_t column, size_t width, char32_t character, Look look) {
  if (number >= rowCount || column >= columnCount) return;
  width = kj::min(width, columnCount - column);
  for (auto& cell : row(number).slice(column, column + width)) cell = {character, look};
}

void Canvas::substitute(char32_t from, char32_t to) {
  for (auto& cell : cells) {
    if (cell.character == from) cell.character = to;
  }
}

void Canvas::paint(size_t number, size_t column, size_t width, Look look) {
  if (number >= rowCount || column >= columnCount) return;
  width = kj::min(width, columnCount - column);
  for (auto& cell : row(number).slice(column, column + width)) cell.look = look;
}

void Canvas::bar(size_t number, size_t column, size_t width, double share, Look look) {
  auto eighths = size_t(std::lround(std::clamp(share, 0.0, 1.0) * double(width * 8)));
  // Something is never nothing.
  if (share > 0 && eighths == 0) eighths = 1;
  for (size_t cell = 0; cell < width; ++cell) {
    auto here = kj::min(eighths - kj::min(eighths, cell * 8), 8u);
    if (here == 0) {
      fill(number, column + cell, 1, U'·', Look::kDim);
    } else {
      fill(number, column + cell, 1, kEighthsAcross[here], look);
    }
  }
}

void Canvas::sparkline(size_t number, size_t column, size_t width,
                       kj::ArrayPtr<const double> values, double most, Look look) {
  if (values.size() > width) values = values.slice(values.size() - width, values.size());
  auto at = column + width - values.size();
  for (auto value : values) {
    auto share = most > 0 ? std::clamp(value / most, 0.0, 1.0) : 0;
    fill(number, at++, 1, kEighthsUp[size_t(std::lround(share * 7))], look);
  }
}

void Canvas::place(const Canvas& from, size_t fromRow, size_t rows, size_t number, size_t column) {
  if (column >= columnCount) return;
  auto width = kj::min(from.columnCount, columnCount - column);
  for (; rows > 0 && fromRow < from.rowCount && number < rowCount; --rows, ++fromRow, ++number) {
    auto source = from.row(fromRow).slice(0, width);
    std::copy(source.begin(), source.end(), row(number).begin() + column);
  }
}

kj::String Canvas::text() const {
  kj::Vector<char> out;
  size_t written = 0;  // up to the last character that is not a blank
  for (size_t number = 0; number < rowCount; ++number) {
    auto line = row(number);
    auto end = line.size();
    while (end > 0 && line[end - 1].character == ' ') --end;
    for (auto& cell : line.slice(0, end)) out.addAll(Utf8(cell.character).asPtr());
    out.add('\n');
    if (end > 0) written = out.size();
  }
  out.truncate(written);
  return stringOf(kj::mv(out));
}

kj::String Canvas::ansi(kj::Maybe<const Canvas&> before, Colors colors) const {
  const Canvas* same = nullptr;
  KJ_IF_MAYBE (there, before) {
    if (there->rowCount == rowCount && there->columnCount == columnCount) same = there;
  }
  kj::Vector<char> out;
  if (same == nullptr) out.addAll("\x1b[0m\x1b[2J"_kj);
  auto look = Look::kPlain;
  bool changed = same == nullptr;
  for (size_t number = 0; number < rowCount; ++number) {
    auto line = row(number);
    bool there = false;  // the cursor is at this cell
    for (size_t column = 0; column < columnCount; ++column) {
      auto& cell = line[column];
      bool equal = same == nullptr ? cell == Cell() : cell == same->row(number)[column];
      if (equal) {
        there = false;
        continue;
      }
      if (!there) out.addAll(kj::str("\x1b[", number + 1, ";", column + 1, "H"));
      there = true;
      if (cell.look != look || !changed) out.addAll(renditionOf(cell.look, colors));
      look = cell.look;
      changed = true;
      out.addAll(Utf8(cell.character).asPtr());
    }
  }
  if (look != Look::kPlain) out.addAll("\x1b[0m"_kj);
  return stringOf(kj::mv(out));
}

// Returns the end of the words with one look that begin here, or of the blanks. Two blanks end the
// words: the next words are placed separately, as no font is exactly as wide as a cell.
size_t Canvas::endOfWords(kj::ArrayPtr<const Cell> line, size_t from) {
  auto look = line[from].look;
  bool blank = line[from].character == ' ';
  auto to = from + 1;
  auto isBlank = [&](size_t at) { return at >= line.size() || line[at].character == ' '; };
  while (to < line.size() && line[to].look == look) {
    if (blank ? !isBlank(to) : isBlank(to) && isBlank(to + 1)) break;
    ++to;
  }
  return to;
}

kj::String Canvas::svg(kj::StringPtr title) const {
  constexpr size_t kWidth = 8, kHeight = 17, kMargin = 10;
  kj::Vector<char> out;
  auto width = columnCount * kWidth + 2 * kMargin, height = rowCount * kHeight + 2 * kMargin;
  out.addAll(kj::str(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", width, " ", height,
      "\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"13\">\n<title>",
      escaped(title),
      "</"
      "title>\n<style>text{white-space:pre;fill:#d4d4d4}.t{font-weight:bold;fill:#fff}.d{fill:#"
      "808080}"
      ".g{fill:#4ec977}.w{fill:#e5c07b}.b{font-weight:bold;fill:#f2777a}.a{fill:#56b6c2}"
      ".s{fill:#1e1e1e}rect{shape-rendering:crispEdges}</style>\n<rect width=\"100%\" "
      "height=\"100%\" rx=\"6\" "
      "fill=\"#1e1e1e\"/>\n"));
  for (size_t number = 0; number < rowCount; ++number) {
    auto line = row(number);
    auto top = kMargin + number * kHeight;
    for (size_t from = 0, to = 0; from < columnCount; from = to) {
      to = endOfWords(line, from);
      auto left = kMargin + from * kWidth, length = (to - from) * kWidth;
      auto look = line[from].look;
      if (look == Look::kSelected) {
        out.addAll(kj::str("<rect x=\"", left, "\" y=\"", top, "\" width=\"", length,
                           "\" height=\"", kHeight, "\" fill=\"#d4d4d4\"/>\n"));
      }
      if (line[from].character == ' ') continue;
      out.addAll(kj::str("<text x=\"", left, "\" y=\"", top + 13, "\" textLength=\"", length,
                         "\" class=\"", svgClassOf(look), "\">"));
      for (auto& cell : line.slice(from, to)) addEscaped(out, cell.character);
      out.addAll("</text>\n"_kj);
    }
  }
  out.addAll("</svg>\n"_kj);
  return stringOf(kj::mv(out));
}

}  // namespace talos
