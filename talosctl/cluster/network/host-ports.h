// Forwards connections of nodes to the ports of the host: a connection to the gateway's address on
// any TCP port that nobody in the cluster's namespace listens on is one to that port of the host.
// So
// `--registry-mirror docker.io=http://10.5.0.1:5000` means the registry on this host's port 5000,
// whether it listens on all addresses, on loopback, or on one of a link.
//
// A rule of the namespace (uplink.h) redirects these connections to one listening socket, which
// reads the original port from the kernel's connection tracking. A connection is accepted before
// the host is tried; when no address of the host accepts it, it is reset.
#pragma once

#include <kj/async-io.h>

#include "talosctl/cluster/network/host-network.h"

namespace talos::cluster {

// Runs until dropped. `listening` is a socket of the cluster's namespace.
kj::Promise<void> forwardToHost(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                kj::AutoCloseFd listening, const HostNetwork& host);

}  // namespace talos::cluster
