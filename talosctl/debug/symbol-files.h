// Handles --symbols: the names of a program's functions, from `make symbols`.
#pragma once

#include "common/crash/symbol-table.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addSymbolsFlag(Command& command);

// Returns the table of this build from --symbols, a file or a folder. If there is no such table,
// returns nullptr, with a note on stderr if the flag is given. NotFound if the path does not exist;
// InvalidArgument if the file is not a table.
kj::Maybe<crash::SymbolTable> symbolsOf(Invocation& call, kj::StringPtr buildId);

}  // namespace talos::talosctl
