// Human-readable sizes. Pure.
#pragma once

#include <kj/string.h>

namespace talos {

// Formats bytes with SI units, as Talos does: "999 B", "1.2 MB", "105 MB".
kj::String decimalSize(uint64_t bytes);

}  // namespace talos
