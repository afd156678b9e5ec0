// networkd's own API (rpc/local.capnp, Networkd): readiness, the kernel's links and routes as they
// are, and captures of packets.
#pragma once

#include "networkd/control/network-reconciler.h"
#include "networkd/control/packet-capture.h"
#include "rpc/local.capnp.h"

namespace talos::networkd {

rpc::Networkd::Client makeServer(NetworkReconciler& reconciler, Captures& captures);

}  // namespace talos::networkd
