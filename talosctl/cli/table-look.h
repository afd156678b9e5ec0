// Fits a table to a terminal: cuts columns of free text to its width, and colours states. Anywhere
// else, the output of Table::render() stays as it is, byte for byte.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {

struct TableLook {
  size_t columns = 0;  // 0: as many as the table needs
  bool color = false;
};

// Returns the terminal's width, or $COLUMNS, and the colours that --color requests: `auto` means on
// a terminal and without $NO_COLOR (https://no-color.org).
TableLook lookOf(const Invocation& call);

// Fits a table to the terminal. `table` is the output of Table::render(), with its header; other
// text is returned unchanged. Names, ids and addresses are never cut, so a table may still be too
// wide. Ends with a newline. Pure.
DrawnText dressed(kj::StringPtr table, const TableLook& look);
// The same as separate lines, without line ends.
kj::Vector<DrawnText> dressedLines(kj::StringPtr table, const TableLook& look);

// Prints the table on stdout.
void outTable(Invocation& call, kj::StringPtr table);

// Prints the rows so far if they are many: a node that streams rows without an end must not make
// this program grow. The rows printed together are aligned with each other.
constexpr size_t kMostTableBytes = 1u << 20;
void outLargeTable(Invocation& call, Table& table);

// Lines of a terminal that are rewritten in place until another writer writes; after this text,
// they start again.
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
