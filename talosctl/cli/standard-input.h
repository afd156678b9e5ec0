// Reads standard input without blocking the loop, so that Ctrl-C works meanwhile.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// All of it. InvalidArgument when there are more than `limit` bytes.
kj::Promise<kj::String> readInput(Dependencies& deps, size_t limit);

// A file, or standard input for "-".
kj::Promise<kj::String> readFileOrInput(Dependencies& deps, kj::StringPtr file, size_t limit);
// Its name in messages.
inline kj::StringPtr nameOfInput(kj::StringPtr file) {
  return file == "-" ? "standard input"_kj : file;
}

// One line without its end; none: it has ended. Of a longer one than `limit` the rest is the next.
kj::Promise<kj::Maybe<kj::String>> readLine(Dependencies& deps, size_t limit);

// Asks "<question> [y/N] " on stderr and reads one line of standard input; what ends without one is
// no answer.
kj::Promise<bool> confirmed(Dependencies& deps, kj::StringPtr question);

}  // namespace talos::talosctl
