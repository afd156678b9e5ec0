// Reads the end of a file of any size: consoles of nodes that run for weeks.
#pragma once

#include <kj/string.h>

namespace talos {

// Returns the last `most` bytes of the file. nullptr if the file does not exist; throws, naming the
// path, if it cannot be read.
kj::Maybe<kj::String> tryReadEnd(kj::StringPtr path, size_t most);

}  // namespace talos
