// Difference of two texts by lines, in the unified format of diff(1). Pure.
//
// Finds the shortest script (Myers 1986), with time and memory bounded: texts that differ in more
// than kMostEdits lines, or that would take too long, are shown as one replacement of everything
// between their common beginning and end.
#pragma once

#include <kj/string.h>

namespace talos {

constexpr size_t kMostEdits = 2000;  // 8 MiB while it searches the script

// Returns an empty text if the texts are equal. Shows `context` lines around each change. Lines are
// text for a terminal (foreign-text.h), so a line with CRLF differs visibly from one without.
kj::String unifiedDiff(kj::StringPtr from, kj::StringPtr to, kj::StringPtr fromName,
                       kj::StringPtr toName, unsigned context = 3);

}  // namespace talos
