// The client of another node's trustd: TCP 50001, TLS 1.3 without a client certificate.
#pragma once

#include <kj/async-io.h>

#include "apid/join/joiner.h"
#include "common/base/node-layout.h"

namespace talos::apid {

// Connects, verifies the server by the pin, calls it, and disconnects. Rejects with the errors of
// rpc/trust.capnp; before the call with Unavailable, or with Unauthenticated if the pin refuses.
// Only connecting has a separate deadline.
//
// Further addresses of the node are proved first, each by a call from it, to the nearest address of
// trustd: within kProofTimeout, all at once. Addresses that cannot reach trustd are left out, and
// all further addresses if trustd refuses their proofs (another trustd answered, through a load
// balancer).
constexpr auto kProofTimeout = 3 * kj::SECONDS;
constexpr size_t kMostProven = 8;  // proved addresses of a node
kj::Promise<TrustdAnswer> callTrustd(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                     TrustdRequest request, uint16_t port = kTrustdPort);

}  // namespace talos::apid
