// The time server of a local cluster: SNTP (RFC 4330, section 6) on the gateway's address with the
// clock of this host, so that the nodes need no other network. Answers are as long as the queries;
// all other packets are dropped.
#pragma once

#include <kj/async-io.h>

#include "common/net/udp.h"

namespace talos::cluster {

// Runs until dropped.
kj::Promise<void> serveTime(kj::Timer& timer, kj::Own<UdpSocket> socket);

}  // namespace talos::cluster
