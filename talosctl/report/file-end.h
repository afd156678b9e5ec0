// The end of a file of any size: consoles of nodes that live for weeks.
#pragma once

#include <kj/string.h>

namespace talos {

// Its last bytes, at most so many. None when there is no such file; throws naming the path when it
// cannot be read.
kj::Maybe<kj::String> tryReadEnd(kj::StringPtr path, size_t most);

}  // namespace talos
