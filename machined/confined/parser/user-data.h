// The machine config in a platform's user data. Pure.
#pragma once

#include <kj/array.h>

#include "machined/platforms/platform.h"

namespace talos::parse {

// Decoded and unpacked; empty: there is none, only blanks, or the data of another system
// (#cloud-config). InvalidArgument when it is not encoded as it must be, or is not text.
kj::Array<char> readUserData(platforms::Encoding encoding, kj::Array<char> content);

}  // namespace talos::parse
