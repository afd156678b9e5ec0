// Forwards accepted connections to a target: from a loopback address of the host to a node's API,
// and from a port of the gateway to a port of the host. If the target cannot be reached, the
// connection is reset and the listener continues.
#pragma once

#include "common/net/connection-forwarder.h"
#include "talosctl/cluster/network/host-network.h"

namespace talos::cluster {

// Runs until dropped. Forwards at most `limit` connections at a time; further connections wait in
// the backlog. `address`: the source, for the log. `dial` has 1.5 s.
kj::Promise<void> forward(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                          kj::AutoCloseFd listening, kj::String address, DialTarget dial,
                          unsigned limit = 512);

// Forwards to a single target address in the network of the calling thread.
kj::Promise<void> forward(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                          kj::AutoCloseFd listening, kj::String targetAddress, uint16_t targetPort,
                          unsigned limit = 512);

// Forwards connections of nodes to the ports of the host: a connection to the gateway's address
// reaches the same TCP port of the host, unless a program in the cluster's namespace listens on it.
// So `--registry-mirror docker.io=http://10.5.0.1:5000` means the registry on this host's port
// 5000, which may listen on all addresses, on loopback, or on the address of a link.
//
// A rule of the namespace (uplink.h) redirects these connections to one listening socket, which
// reads the original port from the kernel's connection tracking. A connection is accepted before
// the host is tried; if no address of the host accepts it, it is reset.

// Runs until dropped. `listening` is a socket of the cluster's namespace.
kj::Promise<void> forwardToHost(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                kj::AutoCloseFd listening, const HostNetwork& host);

}  // namespace talos::cluster
