// Ranges of versions as manifests of system extensions have them: ">= v1.5.0 < v2.0.0 || v2.1.x".
//
// Comparisons (= == != > < >= <=, or none, which is =) with blanks between them must all hold; one
// of the parts between || must hold. A version has three numbers, of which the last ones may be x;
// "v" before it does not count. The version that is compared has no pre-release, so a pre-release
// in a range is below the version with the same numbers. Pure.
#pragma once

#include <kj/string.h>

namespace talos::extension {

// Returns true if the version is in the range, false if it is not; nullptr if one of the two texts
// is not valid. An empty range has all versions.
kj::Maybe<bool> isInRange(kj::StringPtr version, kj::StringPtr range);

}  // namespace talos::extension
