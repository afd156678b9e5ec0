// Forwards accepted connections to a target: from a loopback address of the host to a node's API,
// and from a port of the gateway to a port of the host. If the target cannot be reached, the
// connection is reset and the listener continues.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>

namespace talos::cluster {

// Connects to the target of this client, within 1.5 s.
using Dial = kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>(kj::AsyncIoStream& client)>;

// Runs until dropped. Forwards at most `limit` connections at a time; further connections wait in
// the backlog. `address`: the source, for the log.
kj::Promise<void> forward(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                          kj::AutoCloseFd listening, kj::String address, Dial dial,
                          unsigned limit = 512);

// Forwards to a single target address in the network of the calling thread.
kj::Promise<void> forward(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                          kj::AutoCloseFd listening, kj::String targetAddress, uint16_t targetPort,
                          unsigned limit = 512);

}  // namespace talos::cluster
