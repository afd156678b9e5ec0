// Name of a service's state for users.
#pragma once

#include "rpc/machine.capnp.h"

namespace talos {

// Returns "Running"; "Unknown" for a state that only newer nodes know.
kj::StringPtr serviceStateName(rpc::ServiceState state);

}  // namespace talos
