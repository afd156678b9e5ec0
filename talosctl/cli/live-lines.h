// Lines of a terminal that are rewritten in place until another writer writes; after this text,
// they start again.
#pragma once

#include "talosctl/cli/table-look.h"

namespace talos::talosctl {

class LiveLines {
 public:
  explicit LiveLines(Console& console) : console(console) {}

  // Replaces the table shown before. Cuts lines that are too wide; leaves out lines that do not fit
  // the screen, and shows how many.
  void show(kj::StringPtr table, TableLook look);

 private:
  Console& console;
  size_t drawn = 0;
  uint64_t written = 0;  // value of Console::written() after the last show()
};

}  // namespace talos::talosctl
