// The networks and addresses of a local cluster in its state file: one family, or both. The order
// is IPv4, then IPv6, everywhere. Pure.
#pragma once

#include <kj/vector.h>

#include "common/net/ip.h"
#include "rpc/cluster.capnp.h"

namespace talos::cluster {

// Returns the IPv6 network beside an IPv4 network, by Talos' rule: fd74:616c:a05::/64 for
// 10.5.0.0/24. Its second to fourth octets are "tal"; the four octets of the IPv4 network follow.
Prefix ipv6Beside(const Prefix& cidr);

kj::Vector<Prefix> networksOf(rpc::LocalCluster::Reader cluster);
// Returns the gateway's addresses, with the lengths of the networks.
kj::Vector<Prefix> gatewaysOf(rpc::LocalCluster::Reader cluster);
kj::Vector<Ip> addressesOf(rpc::LocalNode::Reader node);

}  // namespace talos::cluster
