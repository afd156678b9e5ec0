// Serves kubed on its socket: the surveys of the cluster, each with the id of its request
// (common/wire/request-trace.h). Keeps no state.
#pragma once

#include "common/wire/request-trace.h"
#include "rpc/local.capnp.h"

namespace talos::kubed {

// The trace must outlive the server; its rules are those of Kubernetes.
rpc::Kubed::Client serveKubed(rpc::Kubernetes::Client kubernetes, RequestTrace& trace);

}  // namespace talos::kubed
