// --symbols: the names of a program's functions, of `make symbols`.
#pragma once

#include "common/crash/symbol-table.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addSymbolsFlag(Command& command);

// Of --symbols, a file or a folder, the table of this build. None, with a note on stderr when the
// flag is given, if there is none. NotFound when the file is not there; InvalidArgument when it is
// no table.
kj::Maybe<crash::SymbolTable> symbolsOf(Invocation& call, kj::StringPtr buildId);

}  // namespace talos::talosctl
