// Copies bytes between accepted connections and one target address: connects a loopback address of
// the host to a node's API. If the target cannot be reached, the connection is closed and the
// listener continues.
#pragma once

#include <kj/async-io.h>

namespace talos::cluster {

// Runs until dropped. At most `limit` connections at a time; further ones wait in the backlog.
kj::Promise<void> forward(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                          kj::AutoCloseFd listening, kj::String targetAddress, uint16_t targetPort,
                          unsigned limit = 512);

}  // namespace talos::cluster
