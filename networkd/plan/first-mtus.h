// The MTUs of hardware before a config changed them, to be restored when no config sets an MTU.
// Pure; the reconciler keeps them in a file, written before the first change, so a crash at any
// line loses none. A restart of the machine drops both the changes and the file.
#pragma once

#include <kj/function.h>

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

// Adds the MTUs that these steps are about to change for the first time; returns true if it added
// any.
bool remember(std::vector<FirstMtu>& mtus, const Observed& observed,
              kj::ArrayPtr<const Step> steps);
// Drops the MTUs of links that are gone, or that have their own MTU again and no spec with another;
// returns true if it dropped any. From then on another program's value counts.
bool forget(std::vector<FirstMtu>& mtus, const Wanted& wanted, const Observed& observed);

// Formats one link a line, as "2 1500". The parser skips lines that it cannot read.
kj::String format(const std::vector<FirstMtu>& mtus);
std::vector<FirstMtu> parseFirstMtus(kj::StringPtr text);

// Calls `each` for each line of two numbers; skips other lines.
void forEachPair(kj::StringPtr text, kj::FunctionParam<void(unsigned, unsigned)> each);

}  // namespace talos::networkd
