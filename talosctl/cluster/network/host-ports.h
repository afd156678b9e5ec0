// Forwards connections of nodes to the ports of the host: a connection to the gateway's address
// reaches the same TCP port of the host, unless a program in the cluster's namespace listens on it.
// So `--registry-mirror docker.io=http://10.5.0.1:5000` means the registry on this host's port
// 5000, which may listen on all addresses, on loopback, or on the address of a link.
//
// A rule of the namespace (uplink.h) redirects these connections to one listening socket, which
// reads the original port from the kernel's connection tracking. A connection is accepted before
// the host is tried; if no address of the host accepts it, it is reset.
#pragma once

#include <kj/async-io.h>

#include "talosctl/cluster/network/host-network.h"

namespace talos::cluster {

// Runs until dropped. `listening` is a socket of the cluster's namespace.
kj::Promise<void> forwardToHost(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                kj::AutoCloseFd listening, const HostNetwork& host);

}  // namespace talos::cluster
