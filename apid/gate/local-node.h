// The API of this node, as machined serves it, over a separate connection for each client: dialled
// at the first use, and again after a restart of machined. Keeps nothing.
#pragma once

#include <kj/function.h>

#include "common/wire/budget.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"
#include "rpc/node.capnp.h"

namespace talos::apid {

// Returns this node's Node for one request, by its id (common/wire/request-id.h); empty: no id. The
// Node outlives the function: it stays valid as long as the connection can be dialled again.
using NodeOfRequest = kj::Function<rpc::Node::Client(kj::StringPtr request)>;
// Connects for a client: charged to this account, and with this client name for machined.
using LocalNode =
    kj::Function<NodeOfRequest(kj::Own<Budget::Account> account, kj::StringPtr client)>;

NodeOfRequest localNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                        kj::StringPtr machinedSocket, kj::Own<Budget::Account> account,
                        kj::StringPtr client);
// Connects for anonymous clients in maintenance mode.
NodeOfRequest maintenanceNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                              kj::StringPtr machinedSocket, kj::Own<Budget::Account> account);

// Returns machined itself.
rpc::Machined::Client machinedOf(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                 kj::StringPtr machinedSocket);

}  // namespace talos::apid
