#include "talosctl/cli/table.h"

#include <kj/debug.h>

namespace talos {
namespace {

constexpr size_t kMostBlanks = 1u << 20, kMostBlanksPerCharacter = 16;

size_t width(kj::StringPtr cell) {
  size_t characters = 0;
  for (char c : cell) characters += (c & 0xc0) != 0x80;
  return characters;
}

}  // namespace

Table::Table(kj::ArrayPtr<const kj::StringPtr> header, unsigned gap)
    : header(KJ_MAP(h, header) { return kj::str(h); }), gap(gap) {}

Table::Table(std::initializer_list<kj::StringPtr> header, unsigned gap)
    : Table(kj::arrayPtr(header.begin(), header.size()), gap) {}

void Table::row(kj::Array<kj::String> cells) {
  KJ_REQUIRE(cells.size() <= header.size(), "row has more cells than the table has columns");
  auto& shown = rows.add(KJ_MAP(cell, cells) { return printable(cell); });
  for (auto& cell : shown) size += cell.size() + sizeof(cell);
}

kj::String Table::render() {
  kj::Vector<kj::ArrayPtr<const kj::String>> lines;
  if (!headerDone) lines.add(header);
  headerDone = true;
  for (auto& r : rows) lines.add(r);

  kj::Vector<size_t> widths;
  widths.resize(header.size());
  for (auto& w : widths) w = 0;
  for (auto line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = kj::max(widths[i], width(line[i]));
  }

  // The blanks that align a table must not exceed a multiple of its content: otherwise a node that
  // answers with many rows and one huge cell would make the output huge.
  size_t content = kMostBlanks, blanks = 0;
  for (auto line : lines) {
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      auto own = width(line[i]);
      content += kMostBlanksPerCharacter * own;
      blanks += widths[i] - own;
    }
  }
  bool aligned = blanks <= content;

  kj::Vector<char> out;
  for (auto line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      out.addAll(line[i]);
      if (i + 1 == line.size()) break;
      for (size_t n = (aligned ? widths[i] - width(line[i]) : 0) + gap; n > 0; --n) out.add(' ');
    }
    out.add('\n');
  }
  rows.clear();
  size = 0;
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

kj::String humanDuration(int64_t seconds) {
  uint64_t rest = seconds < 0 ? 0 - static_cast<uint64_t>(seconds) : static_cast<uint64_t>(seconds);
  kj::StringPtr sign = seconds < 0 ? "-"_kj : ""_kj;
  uint64_t hours = rest / 3600, minutes = rest / 60 % 60;
  rest %= 60;
  if (hours > 0) return kj::str(sign, hours, "h", minutes, "m", rest, "s");
  if (minutes > 0) return kj::str(sign, minutes, "m", rest, "s");
  return kj::str(sign, rest, "s");
}

}  // namespace talos
