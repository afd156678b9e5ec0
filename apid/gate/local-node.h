// The API of this node, by machined, over a connection of its own for each client: it is dialled
// when it is first used, and again when machined was restarted. Keeps nothing.
#pragma once

#include <kj/function.h>

#include "common/wire/budget.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"
#include "rpc/node.capnp.h"

namespace talos::apid {

// This node's Node for one request, by its id (common/wire/request-id.h); empty: it has none. The
// Node is valid as long as the connection can be made again, so longer than the function.
using NodeOfRequest = kj::Function<rpc::Node::Client(kj::StringPtr request)>;
// The same for a client: charged to this account, and with this client name for machined.
using LocalNode =
    kj::Function<NodeOfRequest(kj::Own<Budget::Account> account, kj::StringPtr client)>;

NodeOfRequest localNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                        kj::StringPtr machinedSocket, kj::Own<Budget::Account> account,
                        kj::StringPtr client);
// For anonymous clients in maintenance mode.
NodeOfRequest maintenanceNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                              kj::StringPtr machinedSocket, kj::Own<Budget::Account> account);

// machined itself.
rpc::Machined::Client machinedOf(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                 kj::StringPtr machinedSocket);

}  // namespace talos::apid
