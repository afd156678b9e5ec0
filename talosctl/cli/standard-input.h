// Reads standard input without blocking the loop, so that Ctrl-C works meanwhile.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Reads standard input to its end. InvalidArgument for more than `limit` bytes.
kj::Promise<kj::String> readInput(Dependencies& deps, size_t limit);

// Reads a file, or standard input for "-".
kj::Promise<kj::String> readFileOrInput(Dependencies& deps, kj::StringPtr file, size_t limit);
// Returns the input's name for messages.
inline kj::StringPtr nameOfInput(kj::StringPtr file) {
  return file == "-" ? "standard input"_kj : file;
}

// Reads one line, without its line end; nullptr at the end of the input. A line longer than `limit`
// is returned in parts.
kj::Promise<kj::Maybe<kj::String>> readLine(Dependencies& deps, size_t limit);

// Asks "<question> [y/N] " on stderr and reads one line of standard input. Input that ends without
// a line end is no answer.
kj::Promise<bool> confirmed(Dependencies& deps, kj::StringPtr question);

// Returns true before a question if a user is at the terminal, and false if there is no terminal.
// Throws if only one of standard input and stderr is a terminal: such a question is neither asked
// nor skipped. `what`: "whether to reset". `agrees`: the flag that skips questions.
bool canAsk(Invocation& call, kj::StringPtr what, kj::StringPtr agrees = "--yes");

}  // namespace talos::talosctl
