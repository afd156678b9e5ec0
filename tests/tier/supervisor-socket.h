// The socket of etcd-supervisor of a machine of the model, as far as machined calls it for
// upgrades: in front of the real MembershipReconciler.
#pragma once

#include "rpc/local.capnp.h"
#include "tests/tier/machine.h"

namespace talos::tier {

// Calls fail with Unavailable while etcd-supervisor does not run, or when it dies.
rpc::EtcdSupervisor::Client supervisorSocket(Machine& machine);

}  // namespace talos::tier
