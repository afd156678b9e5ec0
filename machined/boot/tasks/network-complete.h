// The network that the config requests: waits until all controllers are idle, networkd has applied
// the specs to the kernel, and the node has an address; and says what networkd cannot do.
#pragma once

#include "machined/resources/controller-runtime.h"

namespace talos::machined {

// Resolves with nullptr as soon as the network is complete, after `timeout` with a text about the
// missing part. Checks when one of the resources changes, and when the controllers become idle.
kj::Promise<kj::Maybe<kj::String>> networkComplete(Store& store, ControllerRuntime& controllers,
                                                   kj::Timer& timer, kj::Duration timeout);

// Returns the parts of the network that networkd cannot set up, each with the cause. A link without
// a carrier is set up.
kj::Vector<kj::String> networkProblems(Store& store);
// Returns the settings of EthernetConfig documents that a link's driver does not have, as
// "EthernetConfig LINK: CAUSE".
kj::Vector<kj::String> driverProblems(Store& store);

// Waits until the network is complete, at most `timeout`. Resolves with the parts of
// machine.network, and the settings of drivers, that are not in effect, each with the cause.
kj::Promise<kj::Array<kj::String>> networkNotInEffect(Store& store, ControllerRuntime& controllers,
                                                      kj::Timer& timer, kj::Duration timeout);

}  // namespace talos::machined
