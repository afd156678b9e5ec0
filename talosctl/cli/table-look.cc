#include "talosctl/cli/table-look.h"

#include <ctype.h>
#include <string.h>

#include "common/base/lines.h"
#include "common/screen/look.h"
#include "common/text/texts.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/help.h"

namespace talos::talosctl {
namespace {

constexpr size_t kLeastWidth = 12;  // least width of a column that is cut
constexpr size_t kNarrowGap = 2;    // between columns of a table that is cut

constexpr size_t kLeastName = 36;  // least length of a name whose middle is left out
// Length of "sha256:" and of the digits of a digest that other outputs show.
constexpr size_t kDigestWidth = 7 + 12;

// The part of a cell that is left out first if a table is too wide.
enum class Cut { kNothing, kEnd, kStart, kMiddle, kDigest };

struct CutColumn {
  kj::StringPtr name;
  Cut cut;
};
// Free text loses its end. The end of an image reference identifies it (the tag); both ends of an
// id do (the namespace and the container). All columns of one kind are cut before those of the next
// kind.
constexpr CutColumn kCutColumns[] = {
    {"DIGEST"_kj, Cut::kDigest},  {"LAST EVENT"_kj, Cut::kEnd}, {"MESSAGE"_kj, Cut::kEnd},
    {"PROBLEM"_kj, Cut::kEnd},    {"COMMAND"_kj, Cut::kEnd},    {"MODALIAS"_kj, Cut::kEnd},
    {"WWID"_kj, Cut::kEnd},       {"UUID"_kj, Cut::kEnd},       {"MODEL"_kj, Cut::kEnd},
    {"MOUNTED ON"_kj, Cut::kEnd}, {"ADDRESSES"_kj, Cut::kEnd},  {"OS"_kj, Cut::kEnd},
    {"IMAGE"_kj, Cut::kStart},    {"ID"_kj, Cut::kMiddle}};

// Columns that are left out on a terminal, in this order, if no other cut makes the table fit:
// columns with the same value in all rows, or columns that do not identify a row.
struct Spare {
  kj::StringPtr name;
  bool whenConstant;
};
constexpr Spare kSpare[] = {
    {"TYPE"_kj, true}, {"NAMESPACE"_kj, true}, {"VERSION"_kj, false}, {"OS"_kj, true}};

Cut cutOf(kj::StringPtr column) {
  for (auto& known : kCutColumns) {
    if (known.name == column) return known.cut;
  }
  return Cut::kNothing;
}

struct State {
  kj::StringPtr text;  // lower case
  Look look;
};
constexpr State kStates[] = {{"running"_kj, Look::kGood},
                             {"ok"_kj, Look::kGood},
                             {"true"_kj, Look::kGood},
                             {"sandbox_ready"_kj, Look::kGood},
                             {"container_running"_kj, Look::kGood},
                             {"up"_kj, Look::kGood},
                             {"failed"_kj, Look::kBad},
                             {"fail"_kj, Look::kBad},
                             {"false"_kj, Look::kBad},
                             {"sandbox_notready"_kj, Look::kBad},
                             {"container_exited"_kj, Look::kBad},
                             {"container_unknown"_kj, Look::kBad},
                             {"down"_kj, Look::kBad},
                             {"off"_kj, Look::kBad},
                             {"stopped"_kj, Look::kBad},
                             {"initialized"_kj, Look::kWarning},
                             {"preparing"_kj, Look::kWarning},
                             {"waiting"_kj, Look::kWarning},
                             {"stopping"_kj, Look::kWarning},
                             {"?"_kj, Look::kWarning},
                             {"container_created"_kj, Look::kWarning},
                             {"booting"_kj, Look::kWarning},
                             {"rebooting"_kj, Look::kWarning},
                             {"shuttingdown"_kj, Look::kWarning},
                             {"maintenance"_kj, Look::kWarning},
                             {"resetting"_kj, Look::kWarning},
                             {"paused"_kj, Look::kWarning}};
constexpr kj::StringPtr kStateColumns[] = {"STATE"_kj,   "HEALTH"_kj, "STATUS"_kj,
                                           "STAGE"_kj,   "READY"_kj,  "RUNNING"_kj,
                                           "HEALTHY"_kj, "SYNCED"_kj, "LINK STATE"_kj};

size_t charactersIn(kj::ArrayPtr<const char> text) {
  size_t count = 0;
  for (char c : text) count += (c & 0xc0) != 0x80;
  return count;
}

// Returns the byte at which character `index` begins, or the end.
size_t byteOf(kj::ArrayPtr<const char> text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((text[at] & 0xc0) == 0x80) continue;
    if (index-- == 0) break;
  }
  return at;
}

kj::ArrayPtr<const char> withoutBlanksBehind(kj::ArrayPtr<const char> text) {
  size_t end = text.size();
  while (end > 0 && text[end - 1] == ' ') --end;
  return text.slice(0, end);
}

kj::Vector<kj::ArrayPtr<const char>> linesOf(kj::ArrayPtr<const char> text) {
  kj::Vector<kj::ArrayPtr<const char>> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n') continue;
    lines.add(text.slice(begin, i));
    begin = i + 1;
  }
  if (begin < text.size()) lines.add(text.slice(begin, text.size()));
  return lines;
}

// Returns the columns at which the header's fields begin: after two blanks or more. Empty if the
// text is not a header.
kj::Vector<size_t> columnsOf(kj::ArrayPtr<const char> header) {
  kj::Vector<size_t> starts;
  for (size_t i = 0; i < header.size(); ++i) {
    char c = header[i];
    bool known = isupper(c) || isdigit(c) || c == ' ' || strchr("*()%/-+.", c) != nullptr;
    if (!known) return {};
    bool begins = c != ' ' && (i == 0 || (i >= 2 && header[i - 1] == ' ' && header[i - 2] == ' '));
    if (begins) starts.add(i);
  }
  return starts;
}

class DressedTable {
 public:
  DressedTable(kj::Vector<size_t> startsGiven, kj::ArrayPtr<const kj::ArrayPtr<const char>> lines)
      : starts(kj::mv(startsGiven)) {
    widths = kj::heapArray<size_t>(starts.size());
    for (auto& width : widths) width = 0;
    for (auto line : lines) {
      kj::Vector<kj::String> cells;
      for (size_t i = 0; i < starts.size(); ++i) {
        auto begin = byteOf(line, starts[i]);
        auto end = i + 1 < starts.size() ? byteOf(line, starts[i + 1]) : line.size();
        auto cell = kj::heapString(withoutBlanksBehind(line.slice(begin, kj::max(begin, end))));
        widths[i] = kj::max(widths[i], charactersIn(cell));
        cells.add(kj::mv(cell));
      }
      rows.add(kj::mv(cells));
    }
  }

  // Shortens digests, then free text, then image references, then ids, each time the widest column
  // of this kind, until the table fits.
  void fit(size_t columns) {
    auto whole = kj::heapArray<size_t>(widths.asPtr());
    auto shorten = [&]() {
      narrow(columns, Cut::kDigest, kDigestWidth);
      narrow(columns, Cut::kEnd, kLeastWidth);
      narrow(columns, Cut::kStart, kLeastWidth);
      narrow(columns, Cut::kMiddle, kLeastName);
    };
    shorten();
    for (auto& spare : kSpare) {
      if (width() <= columns) return;
      KJ_IF_MAYBE (column, spareColumn(spare)) {
        whole = without(whole, *column);
        widths = kj::heapArray<size_t>(whole.asPtr());
        for (auto& row : rows) row = withoutCell(kj::mv(row), *column);
        shorten();
      }
    }
  }

  size_t firstWidth() const { return widths[0]; }

  // Returns the lines without line ends.
  kj::Vector<DrawnText> render(size_t gap, bool color) const {
    kj::Vector<DrawnText> lines(rows.size());
    for (size_t r = 0; r < rows.size(); ++r) {
      auto& line = lines.add();
      for (size_t i = 0; i < widths.size(); ++i) {
        auto cell = cut(rows[r][i], widths[i], r > 0 ? cutOf(rows[0][i]) : Cut::kEnd);
        line.add(cell, color && r > 0 ? lookOf(rows[0][i], cell) : Look::kPlain);
        if (i + 1 == widths.size()) break;
        line.add(kj::str(kj::repeat(' ', widths[i] + gap - charactersIn(cell))));
      }
    }
    return lines;
  }

 private:
  kj::Vector<size_t> starts;
  kj::Array<size_t> widths;
  kj::Vector<kj::Vector<kj::String>> rows;  // the header first

  size_t width() const {
    size_t total = kNarrowGap * (widths.size() - 1);
    for (auto one : widths) total += one;
    return total;
  }

  kj::Maybe<size_t> spareColumn(const Spare& spare) const {
    for (auto i : kj::indices(widths)) {
      if (rows[0][i] != spare.name) continue;
      for (size_t r = 2; spare.whenConstant && r < rows.size(); ++r) {
        if (rows[r][i] != rows[1][i]) return nullptr;
      }
      return i;
    }
    return nullptr;
  }
  static kj::Array<size_t> without(kj::ArrayPtr<const size_t> all, size_t index) {
    kj::Vector<size_t> kept;
    for (auto i : kj::indices(all)) {
      if (i != index) kept.add(all[i]);
    }
    return kept.releaseAsArray();
  }
  static kj::Vector<kj::String> withoutCell(kj::Vector<kj::String> cells, size_t index) {
    kj::Vector<kj::String> kept;
    for (auto i : kj::indices(cells)) {
      if (i != index) kept.add(kj::mv(cells[i]));
    }
    return kept;
  }

  void narrow(size_t columns, Cut kind, size_t least) {
    for (;;) {
      auto total = width();
      kj::Maybe<size_t> widest;
      for (size_t i = 0; i < widths.size(); ++i) {
        if (cutOf(rows[0][i]) != kind) continue;
        if (widths[i] <= kj::max(charactersIn(rows[0][i]), least)) continue;
        if (widest == nullptr || widths[i] > widths[widest.orDefault(0)]) widest = i;
      }
      if (total <= columns || widest == nullptr) return;
      auto& width = widths[KJ_ASSERT_NONNULL(widest)];
      width = kind == Cut::kDigest ? least : width - 1;
    }
  }

  static kj::String cut(kj::StringPtr cell, size_t width, Cut how) {
    auto size = charactersIn(cell);
    if (size <= width) return kj::str(cell);
    auto part = [&](size_t from, size_t to) {
      return cell.asArray().slice(byteOf(cell, from), byteOf(cell, to));
    };
    if (how == Cut::kDigest) return kj::str(part(0, width));
    if (how == Cut::kStart) return kj::str("…", part(size - (width - 1), size));
    if (how != Cut::kMiddle) return kj::str(part(0, width - 1), "…");
    auto front = (width - 1) / 2;
    return kj::str(part(0, front), "…", part(size - (width - 1 - front), size));
  }

  static Look lookOf(kj::StringPtr column, kj::StringPtr cell) {
    if (column == "PROBLEM" && cell.size() > 0) return Look::kBad;
    if (!contains(kStateColumns, column)) return Look::kPlain;
    auto text = kj::str(cell);
    for (char& c : text) c = static_cast<char>(tolower(c));
    for (auto& state : kStates) {
      if (state.text == text) return state.look;
    }
    return Look::kPlain;
  }
};

}  // namespace

TableLook lookOf(const Invocation& call) {
  TableLook look;
  auto& console = call.deps.console;
  if (console.outIsTerminal()) look.columns = helpColumns(call.deps);
  auto when = call.text("color");
  auto noColor = call.deps.environment("NO_COLOR");
  bool wanted = console.drawsOnOut() && noColor.orDefault(nullptr).size() == 0;
  look.color = when == "always" || (when == "auto" && wanted);
  return look;
}

kj::Vector<DrawnText> dressedLines(kj::StringPtr table, const TableLook& look) {
  auto lines = linesOf(table);
  auto asTheyAre = [&]() {
    kj::Vector<DrawnText> all(lines.size());
    for (auto line : lines) all.add(DrawnText(line));
    return all;
  };
  if ((look.columns == 0 && !look.color) || lines.empty()) return asTheyAre();
  auto starts = columnsOf(lines[0]);
  if (starts.size() < 2) return asTheyAre();
  size_t widest = 0;
  for (auto line : lines) widest = kj::max(widest, charactersIn(line));
  bool fits = look.columns == 0 || widest <= look.columns;
  if (fits && !look.color) return asTheyAre();
  size_t gap = starts[1];  // gap of the table as it is
  DressedTable dress(kj::mv(starts), lines);
  if (fits) return dress.render(gap - dress.firstWidth(), true);
  dress.fit(look.columns);
  return dress.render(kNarrowGap, look.color);
}

DrawnText dressed(kj::StringPtr table, const TableLook& look) {
  DrawnText text;
  for (auto& line : dressedLines(table, look)) text.add(line).add("\n"_kj);
  return text;
}

void outTable(Invocation& call, kj::StringPtr table) {
  call.out(dressed(table, lookOf(call)));
}

void outLargeTable(Invocation& call, Table& table) {
  if (table.bytes() > kMostTableBytes) outTable(call, table.render());
}

namespace {

// Splits the table into lines of at most the screen's width. A line that wraps would break the
// count of lines, so if a line is too long all lines lose their colours: the width of colour codes
// is unknown here.
kj::Vector<DrawnText> screenLinesOf(kj::StringPtr table, TableLook look) {
  auto plain = dressed(table, {.columns = look.columns, .color = false});
  bool fits = true;
  kj::Vector<DrawnText> lines;
  for (auto line : Lines(plain.asPtr())) {
    auto shown = firstCharacters(line, look.columns);
    fits = fits && shown.size() == line.size();
    lines.add(DrawnText(shown));
  }
  return fits && look.color ? dressedLines(table, look) : kj::mv(lines);
}

}  // namespace

void LiveLines::show(kj::StringPtr table, TableLook look) {
  look.columns = kj::max(look.columns, size_t(1));
  auto lines = screenLinesOf(table, look);
  size_t room = kj::max(console.rows(), 3u) - 1;
  if (lines.size() > room) {
    auto more = lines.size() - (room - 1);
    while (lines.size() > room - 1) lines.removeLast();
    lines.add(DrawnText(kj::str("… and ", more, " more")));
  }
  DrawnText all;
  if (drawn > 0 && console.written() == written) all.up(drawn);
  for (auto& line : lines) all.toLineStart().add(line).clearToLineEnd().add("\n"_kj);
  console.out(all.clearBelow());
  drawn = lines.size();
  written = console.written();
}

}  // namespace talos::talosctl
