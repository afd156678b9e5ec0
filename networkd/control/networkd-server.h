// networkd's API (rpc/local.capnp, Networkd): readiness, the kernel's links and routes, and
// captures of packets.
#pragma once

#include "common/wire/request-trace.h"
#include "networkd/control/network-reconciler.h"
#include "networkd/control/packet-capture.h"
#include "rpc/local.capnp.h"

namespace talos::networkd {

// All arguments outlive the server. `trace` is for rpc::Network; without it, requests are not
// traced.
rpc::Networkd::Client makeServer(NetworkReconciler& reconciler, Captures& captures,
                                 kj::Maybe<RequestTrace&> trace = nullptr);

}  // namespace talos::networkd
