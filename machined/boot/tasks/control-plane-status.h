// Finds out whether bootkube's control plane is still in charge, as etcd-supervisor reports it.
#pragma once

#include "machined/resources/store.h"

namespace talos::machined {

constexpr auto kUntilStatusKnown = 5 * kj::SECONDS;

// Resolves with false if that is unknown: this node's etcd is down, or etcd-supervisor has reported
// nothing for kUntilStatusKnown.
kj::Promise<bool> selfHostedControlPlane(Store& store, kj::Timer& timer);

}  // namespace talos::machined
