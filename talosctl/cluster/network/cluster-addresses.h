// The networks and addresses of a local cluster as its state file has them: one family, or both.
// The order is IPv4, then IPv6, everywhere. Pure.
#pragma once

#include <kj/vector.h>

#include "common/net/ip.h"
#include "rpc/cluster.capnp.h"

namespace talos::cluster {

// The IPv6 network beside an IPv4 one, as the original makes it: fd74:616c:a05::/64 of 10.5.0.0/24.
// Its second to fourth octets are "tal", then come the four of the IPv4 network.
Prefix ipv6Beside(const Prefix& cidr);

kj::Vector<Prefix> networksOf(rpc::LocalCluster::Reader cluster);
// The gateway's addresses, with the lengths of the networks.
kj::Vector<Prefix> gatewaysOf(rpc::LocalCluster::Reader cluster);
kj::Vector<Ip> addressesOf(rpc::LocalNode::Reader node);

}  // namespace talos::cluster
