// The Services capability: what the API may see and do with services.
#pragma once

#include "machined/services/supervisor.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

// The supervisor has to outlive all clients. An answer to start and restart is given before the
// service is up: its events show the rest.
rpc::Services::Client serveServices(Supervisor& supervisor);

}  // namespace talos::machined
