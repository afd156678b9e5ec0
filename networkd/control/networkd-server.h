// networkd's own API (rpc/local.capnp, Networkd): readiness, the kernel's links and routes as they
// are, and captures of packets.
#pragma once

#include "common/wire/request-trace.h"
#include "networkd/control/network-reconciler.h"
#include "networkd/control/packet-capture.h"
#include "rpc/local.capnp.h"

namespace talos::networkd {

// All outlive it. `trace` is for rpc::Network; without one, requests are not traced.
rpc::Networkd::Client makeServer(NetworkReconciler& reconciler, Captures& captures,
                                 kj::Maybe<RequestTrace&> trace = nullptr);

}  // namespace talos::networkd
