// The difference of two texts by lines, in the unified format of diff(1). Pure.
//
// The shortest script (Myers 1986), with time and memory bounded: texts that differ in more than
// kMostEdits lines, or that would take too long, are shown as one replacement of what is between
// their common beginning and end.
#pragma once

#include <kj/string.h>

namespace talos {

constexpr size_t kMostEdits = 2000;  // 8 MiB while the script is looked for

// Empty when the texts are equal. `context` lines around each change. Lines are text
// for a terminal (foreign-text.h), so one with CRLF differs visibly from one without.
kj::String unifiedDiff(kj::StringPtr from, kj::StringPtr to, kj::StringPtr fromName,
                       kj::StringPtr toName, unsigned context = 3);

}  // namespace talos
