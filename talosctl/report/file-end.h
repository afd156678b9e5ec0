// Reads the end of a file of any size: consoles of nodes that run for weeks.
#pragma once

#include <kj/string.h>

namespace talos {

// Its last `most` bytes. None when there is no such file; throws naming the path when it cannot be
// read.
kj::Maybe<kj::String> tryReadEnd(kj::StringPtr path, size_t most);

}  // namespace talos
