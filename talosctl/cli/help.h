// Help and usage texts, made from the table of commands, in lines of at most `columns` characters
// where the words allow it.
#pragma once

#include <vector>

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// For a mistake on the command line: one line of usage, and where the rest is.
kj::String usageHint(const Command& command, size_t columns);
// The output of -h: the summary, the details and the usage.
kj::String helpText(const Command& command, size_t columns);

// How a command is called, with its flags and those of its parents.
kj::String usageText(const Command& command, size_t columns);

// "-o, --output text" and what it does, for each flag that is shown. `user`: the command whose help
// it is, which has a deadline of its own.
struct FlagText {
  kj::String name, text;
};
std::vector<FlagText> flagTextsOf(const Command& command, const Command& user);

// $COLUMNS, else those of the terminal.
size_t helpColumns(Dependencies& deps);

}  // namespace talos::talosctl
