// Help and usage texts, made from the table of commands, in lines of at most `columns` characters
// where the words allow it.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// What -h prints: the summary, the details and the usage.
kj::String helpText(const Command& command, size_t columns);

// How a command is called, with its flags and those of its parents.
kj::String usageText(const Command& command, size_t columns);

// $COLUMNS, else those of the terminal.
size_t helpColumns(Dependencies& deps);

}  // namespace talos::talosctl
