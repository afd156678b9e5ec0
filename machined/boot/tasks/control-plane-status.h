// Tells if bootkube's control plane is still in charge, as etcd-supervisor says.
#pragma once

#include "machined/resources/store.h"

namespace talos::machined {

constexpr auto kUntilStatusKnown = 5 * kj::SECONDS;

// False when nobody knows: etcd of this node is not up, or nothing was said for kUntilStatusKnown.
kj::Promise<bool> selfHostedControlPlane(Store& store, kj::Timer& timer);

}  // namespace talos::machined
