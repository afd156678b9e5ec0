// Fits a table to a terminal: columns of free text are cut to its width, and states have colours.
// Elsewhere it stays as Table::render() made it, byte for byte.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {

struct TableLook {
  size_t columns = 0;  // 0: as many as the table needs
  bool color = false;
};

// A terminal's width, or $COLUMNS; colours as --color says: `auto` is on a terminal and without
// $NO_COLOR (https://no-color.org).
TableLook lookOf(const Invocation& call);

// `table`: the output of Table::render(), with its header; other text is returned as it is. Names,
// ids and addresses are never cut, so a table may still be too wide. Ends with a newline. Pure.
DrawnText dressed(kj::StringPtr table, const TableLook& look);
kj::Vector<DrawnText> dressedLines(kj::StringPtr table, const TableLook& look);  // without ends

// Prints it on stdout.
void outTable(Invocation& call, kj::StringPtr table);

// Prints the rows so far when they are many: a node that streams rows without an end must not make
// this program grow. The rows of a part are aligned among themselves.
constexpr size_t kMostTableBytes = 1u << 20;
void outLargeTable(Invocation& call, Table& table);

}  // namespace talos::talosctl
