// Selects the time servers that agree: the largest group whose claims have a point in common, as in
// Marzullo's algorithm (RFC 5905 §11.2.1). Two correct servers outvote a wrong one. Pure.
#pragma once

#include <kj/array.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos::machined {

// "The true offset is in offset ± error." Both are far from the ends of their range.
struct Claim {
  kj::Duration offset, error;
};

struct Agreement {
  kj::Vector<size_t> members;  // of the claims, in their order
  size_t best;                 // the member with the least error
};

// Returns nullptr unless the group is more than half of the claims and has at least `needed`
// members.
kj::Maybe<Agreement> agree(kj::ArrayPtr<const Claim> claims, size_t needed = 1);

}  // namespace talos::machined
