// When the network is what the config asks for: no controller has anything to do, the kernel has
// what the specs say, and there is an address.
#pragma once

#include "machined/resources/controller-runtime.h"

namespace talos::machined {

// Resolves as soon as it is, with none; after `patience` with what it still waits for. Looks when
// one of the resources that tell it changes, and when the controllers come to rest.
kj::Promise<kj::Maybe<kj::String>> networkComplete(Store& store, ControllerRuntime& controllers,
                                                   kj::Timer& timer, kj::Duration patience);

}  // namespace talos::machined
