// One conversation with trustd of another node: TCP 50001, TLS 1.3 without a client certificate.
#pragma once

#include <kj/async-io.h>

#include "apid/join/joiner.h"
#include "common/base/node-layout.h"

namespace talos::apid {

// Connects, verifies by the pin, asks, and hangs up. Rejects as rpc/trust.capnp tells; Unavailable,
// or Unauthenticated when the pin refuses, when it does not get so far. Without a deadline of its
// own beyond that of connecting.
kj::Promise<JoinAnswer> askTrustd(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                  JoinQuestion question, uint16_t port = kTrustdPort);

}  // namespace talos::apid
