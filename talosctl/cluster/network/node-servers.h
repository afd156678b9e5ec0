// The servers of a local cluster for its nodes: configs by HTTP, and the time by SNTP.
//
// The HTTP server sends each node its machine config.
// GET /<node>.yaml is answered only for the address of this node, because a config holds the
// secrets of its machine.
#pragma once

#include <kj/async-io.h>
#include <kj/map.h>
#include <stdint.h>

#include "common/net/udp.h"

namespace talos::cluster {

constexpr uint16_t kConfigPort = 8080;  // port on the bridge

// `files`: peer address ("10.5.0.2") → path of the file for this peer, and the name in its request.
struct ServedFile {
  kj::String urlPath;  // "/demo-master-1.yaml"
  kj::String file;
};

// Runs until dropped. Reads the file again at each request.
kj::Promise<void> serveConfigs(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                               kj::AutoCloseFd listening,
                               kj::HashMap<kj::String, ServedFile> files);

// The time server of a local cluster: SNTP (RFC 4330, section 6) on the gateway's address with the
// clock of this host, so that the nodes need no other network. Answers are as long as the queries;
// all other packets are dropped.

// Runs until dropped.
kj::Promise<void> serveTime(kj::Timer& timer, kj::Own<UdpSocket> socket);

}  // namespace talos::cluster
