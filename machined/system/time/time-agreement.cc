#include "machined/system/time/time-agreement.h"

namespace talos::machined {
namespace {

bool covers(const Claim& claim, kj::Duration point) {
  return claim.offset - claim.error <= point && point <= claim.offset + claim.error;
}

}  // namespace

// A region that most claims cover begins where one of them begins. There are at most a dozen
// claims.
kj::Maybe<Agreement> agree(kj::ArrayPtr<const Claim> claims, size_t needed) {
  kj::Duration point = 0 * kj::SECONDS;
  size_t most = 0;
  for (auto& candidate : claims) {
    auto begin = candidate.offset - candidate.error;
    size_t count = 0;
    for (auto& claim : claims) count += covers(claim, begin);
    if (count > most) {
      most = count;
      point = begin;
    }
  }
  if (most == 0 || most < needed || 2 * most <= claims.size()) return nullptr;
  Agreement result{{}, 0};
  for (auto i : kj::indices(claims)) {
    if (!covers(claims[i], point)) continue;
    if (result.members.empty() || claims[i].error < claims[result.best].error) result.best = i;
    result.members.add(i);
  }
  return kj::mv(result);
}

}  // namespace talos::machined
