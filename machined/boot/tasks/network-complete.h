// Waits for the network that the config requests: all controllers are idle, networkd has applied
// the specs to the kernel, and the node has an address.
#pragma once

#include "machined/resources/controller-runtime.h"

namespace talos::machined {

// Resolves with nullptr as soon as the network is complete, after `timeout` with a text about the
// missing part. Checks when one of the resources changes, and when the controllers become idle.
kj::Promise<kj::Maybe<kj::String>> networkComplete(Store& store, ControllerRuntime& controllers,
                                                   kj::Timer& timer, kj::Duration timeout);

}  // namespace talos::machined
