// The difference of two texts by lines, in the unified format of diff(1). Pure.
//
// The shortest script (Myers 1986), with time and memory bounded: texts that differ in more than
// kMostEdits lines are shown as one replacement.
#pragma once

#include <kj/string.h>

namespace talos {

constexpr size_t kMostEdits = 4000;

// Empty when the texts are equal. `context` lines around each change. Control characters but tab
// are shown as \xNN.
kj::String unifiedDiff(kj::StringPtr from, kj::StringPtr to, kj::StringPtr fromName,
                       kj::StringPtr toName, unsigned context = 3);

}  // namespace talos
