// kubed on its socket: the surveys of the cluster, and with them the id of the request that each is
// part of (common/wire/request-trace.h). Keeps nothing.
#pragma once

#include "common/wire/request-trace.h"
#include "rpc/local.capnp.h"

namespace talos::kubed {

// The trace outlives it; its rules are those of Kubernetes.
rpc::Kubed::Client serveKubed(rpc::Kubernetes::Client kubernetes, RequestTrace& trace);

}  // namespace talos::kubed
