// The MTUs of hardware before a config changed them, so that they return to them when no config
// sets one. Pure; the reconciler keeps them in a file, written before the first change, so a crash
// at any line loses none. A restart of the machine forgets them, and the changes with them.
#pragma once

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

// Adds those that these steps are about to change for the first time; true if there are any.
bool remember(std::vector<FirstMtu>& mtus, const Observed& observed,
              kj::ArrayPtr<const Step> steps);
// Drops those of links that are gone, or have their own again and no spec with another; true if
// there are any. From then on another program's value counts.
bool forget(std::vector<FirstMtu>& mtus, const Wanted& wanted, const Observed& observed);

// "2 1500", one link a line. What cannot be read is left out.
kj::String format(const std::vector<FirstMtu>& mtus);
std::vector<FirstMtu> parseFirstMtus(kj::StringPtr text);

}  // namespace talos::networkd
