// The cluster's networks, domain and endpoint from the config, with their defaults. Pure.
#pragma once

#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::config {

// https://10.5.0.2:6443, as the config has it.
kj::String clusterEndpoint(Cluster::Reader cluster);
kj::String clusterName(Cluster::Reader cluster);
kj::String dnsDomain(Cluster::Reader cluster);

// Networks with prefix lengths; those of IPv6 are the default where the endpoint is one.
kj::Vector<kj::String> podSubnets(Cluster::Reader cluster);
kj::Vector<kj::String> serviceSubnets(Cluster::Reader cluster);
// The address with this number in each of them: the first is the API's, the tenth the DNS server's.
kj::Vector<kj::String> serviceAddresses(Cluster::Reader cluster, unsigned number);
inline kj::Vector<kj::String> apiServiceAddresses(Cluster::Reader cluster) {
  return serviceAddresses(cluster, 1);
}
inline kj::Vector<kj::String> dnsServiceAddresses(Cluster::Reader cluster) {
  return serviceAddresses(cluster, 10);
}

}  // namespace talos::config
