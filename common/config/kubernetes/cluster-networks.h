// Networks, domain and endpoint of the cluster from the config, with their defaults; subnets that
// select addresses; destinations of routes. Pure.
#pragma once

#include <kj/vector.h>

#include "common/net/ip.h"
#include "rpc/config.capnp.h"

namespace talos::config {

// Returns https://10.5.0.2:6443, as the config has it.
kj::String clusterEndpoint(Cluster::Reader cluster);
kj::String clusterName(Cluster::Reader cluster);
kj::String dnsDomain(Cluster::Reader cluster);

// Return networks with prefix lengths; the defaults are of IPv6 if the endpoint is an IPv6 address.
kj::Vector<kj::String> podSubnets(Cluster::Reader cluster);
kj::Vector<kj::String> serviceSubnets(Cluster::Reader cluster);
// Returns the address with this number in each of them: the first is the API's, the tenth the DNS
// server's.
kj::Vector<kj::String> serviceAddresses(Cluster::Reader cluster, unsigned number);
inline kj::Vector<kj::String> apiServiceAddresses(Cluster::Reader cluster) {
  return serviceAddresses(cluster, 1);
}
inline kj::Vector<kj::String> dnsServiceAddresses(Cluster::Reader cluster) {
  return serviceAddresses(cluster, 10);
}

// The subnets of a list that selects addresses of a node. A subnet that begins with ! excludes its
// addresses, even if another subnet of the list has them. Texts that are no subnets do not count:
// the config's checks refuse them.
class SubnetFilter {
 public:
  explicit SubnetFilter(capnp::List<capnp::Text>::Reader subnets);

  // Returns true for an address of a subnet of the list. A list without subnets that include
  // addresses selects every address that it does not exclude, but none of pods.
  bool selects(const Ip& address, bool ofPods) const;
  // Returns "in 10.0.0.0/8 or fd00::/8 that is not in 10.0.0.9/32", which follows "an address".
  kj::String describe() const;

 private:
  kj::Vector<Prefix> included, excluded;
};

// Returns the destination of a route of machine.network. A unicast route without a network is the
// default route of its gateway's family. Returns nullptr if the network is not valid, or if there
// is neither a network nor a valid gateway.
kj::Maybe<Prefix> destinationOf(Route::Reader route);

}  // namespace talos::config
