// Human-readable sizes and times. Pure.
#pragma once

#include <kj/string.h>

namespace talos {

// Formats bytes with SI units, as Talos does: "999 B", "1.2 MB", "105 MB".
kj::String decimalSize(uint64_t bytes);

// Formats a time as users type it for a flag: "45s", "1m", "1h30m", "720h", "0s".
kj::String timeSpan(uint64_t seconds);

}  // namespace talos
