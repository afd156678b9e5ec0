// Lines of a terminal that are rewritten in place, for as long as nothing else is written after
// them; then they start again below it.
#pragma once

#include "talosctl/cli/table-look.h"

namespace talos::talosctl {

class LiveLines {
 public:
  explicit LiveLines(Console& console) : console(console) {}

  // Shows the table instead of the one before. Lines that are too wide are cut, and those that do
  // not fit the screen left out and counted.
  void show(kj::StringPtr table, TableLook look);

 private:
  Console& console;
  size_t drawn = 0;
  uint64_t written = 0;  // to the console, when they were drawn
};

}  // namespace talos::talosctl
