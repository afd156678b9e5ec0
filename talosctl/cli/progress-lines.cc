#include "talosctl/cli/progress-lines.h"

#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {

Progress::Progress(Console& console, kj::ArrayPtr<const kj::String> names)
    : console(console), names(names), texts(KJ_MAP(n, names) { return kj::str("…"); }) {}

kj::String Progress::line(size_t index) const {
  return printable(kj::str(names[index], ": ", texts[index]));
}

void Progress::set(size_t index, kj::StringPtr text) {
  if (texts[index] == text) return;
  texts[index] = kj::str(text);
  if (!console.errIsTerminal()) {
    console.err(kj::str(line(index), "\n"));
    return;
  }
  DrawnText lines;
  if (drawn) lines.up(texts.size());
  drawn = true;
  for (size_t i = 0; i < texts.size(); ++i) {
    // A line that wraps would break the count of lines.
    auto whole = line(i);
    auto shown = firstCharacters(whole, kj::max(console.columns(), 1u) - 1);
    lines.toLineStart().add(shown).clearToLineEnd().add("\n"_kj);
  }
  console.err(lines);
}

}  // namespace talos::talosctl
