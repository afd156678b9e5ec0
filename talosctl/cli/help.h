// Help and usage texts, generated from the table of commands, in lines of at most `columns`
// characters unless a single word is longer.
#pragma once

#include <vector>

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Returns the hint for a usage error: one line of usage, and how to get the full help.
kj::String usageHint(const Command& command, size_t columns);
// Returns the output of -h: the summary, the details and the usage.
kj::String helpText(const Command& command, size_t columns);

// Returns how to call a command, with its flags and those of its parents.
kj::String usageText(const Command& command, size_t columns);

// Returns "-o, --output text" and a description for each flag that is shown. `user`: the command
// whose help it is, which may have its own deadline.
struct FlagText {
  kj::String name, text;
};
std::vector<FlagText> flagTextsOf(const Command& command, const Command& user);

// Returns $COLUMNS, otherwise the width of the terminal.
size_t helpColumns(Dependencies& deps);

}  // namespace talos::talosctl
