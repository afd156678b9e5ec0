// Forwards accepted connections, each to a target that the caller connects to, until both sides
// have ended. If the target cannot be reached, the connection is reset and the listener continues.
// A crash ends all connections.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/io.h>

namespace talos {

// Connects to the target of this client, within a time that the function limits.
using DialTarget = kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>(kj::AsyncIoStream& client)>;

// Runs until dropped; fails only if the listening socket fails. Forwards at most `limit`
// connections at a time; further connections wait in the backlog. `address`: the source, for the
// log.
kj::Promise<void> forwardConnections(kj::LowLevelAsyncIoProvider& lowLevel,
                                     kj::AutoCloseFd listening, kj::String address, DialTarget dial,
                                     unsigned limit);

}  // namespace talos
