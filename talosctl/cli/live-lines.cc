#include "talosctl/cli/live-lines.h"

#include "common/base/lines.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
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
