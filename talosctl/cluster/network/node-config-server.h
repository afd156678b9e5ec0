// The HTTP server from which the nodes of a local cluster fetch their machine configs.
//
// GET /<node>.yaml is answered only for the address of this node, because a config holds the
// secrets of its machine.
#pragma once

#include <kj/async-io.h>
#include <kj/map.h>
#include <stdint.h>

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

}  // namespace talos::cluster
