// A connection that comes from one of several addresses of this node.
#pragma once

#include "common/net/ip.h"
#include "common/wire/rpc-server.h"

namespace talos {

// Connects like connectTcp(), from the address `source` of the node; if it is nullptr, the kernel
// chooses the address.
kj::Promise<kj::Own<Connection>> connectTcpFrom(kj::Maybe<Ip> source,
                                                kj::LowLevelAsyncIoProvider& lowLevel,
                                                kj::Timer& timer, kj::StringPtr address,
                                                uint16_t port, Secure secure, kj::Duration deadline,
                                                kj::Function<DialLimits()> limits);

}  // namespace talos
