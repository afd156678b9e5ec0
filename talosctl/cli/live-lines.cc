#include "talosctl/cli/live-lines.h"

#include "common/base/lines.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

// In lines of at most so many characters. A line that wraps could not be counted, so where one
// would, all are plain: colours have no width that is known here.
kj::Vector<kj::String> screenLinesOf(kj::StringPtr table, TableLook look) {
  auto plain = dressed(table, {.columns = look.columns, .color = false});
  bool fits = true;
  kj::Vector<kj::String> lines;
  for (auto line : Lines(plain)) {
    auto shown = firstCharacters(line, look.columns);
    fits = fits && shown.size() == line.size();
    lines.add(kj::heapString(shown));
  }
  if (!fits || !look.color) return lines;
  kj::Vector<kj::String> coloured;
  auto text = dressed(table, look);
  for (auto line : Lines(text)) coloured.add(kj::heapString(line));
  return coloured;
}

}  // namespace

void LiveLines::show(kj::StringPtr table, TableLook look) {
  look.columns = kj::max(look.columns, size_t(1));
  auto lines = screenLinesOf(table, look);
  size_t room = kj::max(console.rows(), 3u) - 1;
  if (lines.size() > room) {
    auto more = lines.size() - (room - 1);
    while (lines.size() > room - 1) lines.removeLast();
    lines.add(kj::str("… and ", more, " more"));
  }
  kj::Vector<kj::String> parts;
  if (drawn > 0 && console.written() == written) parts.add(kj::str("\x1b[", drawn, "A"));
  for (auto& line : lines) parts.add(kj::str("\r", line, "\x1b[K\n"));
  parts.add(kj::str("\x1b[J"));
  console.out(kj::strArray(parts, ""));
  drawn = lines.size();
  written = console.written();
}

}  // namespace talos::talosctl
