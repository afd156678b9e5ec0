#include "talosctl/cluster/network/cluster-addresses.h"

#include <kj/debug.h>
#include <string.h>

namespace talos::cluster {

Prefix ipv6Beside(const Prefix& cidr) {
  kj::byte bytes[16] = {0xfd, 't', 'a', 'l'};
  memcpy(bytes + 4, cidr.address.bytes().begin(), 4);
  return {KJ_ASSERT_NONNULL(Ip::fromBytes(kj::arrayPtr(bytes, sizeof bytes))), 64};
}

kj::Vector<Prefix> networksOf(rpc::LocalCluster::Reader cluster) {
  kj::Vector<Prefix> networks;
  for (auto text : {cluster.getCidr(), cluster.getCidr6()}) {
    if (text.size() > 0) networks.add(KJ_REQUIRE_NONNULL(Prefix::parse(text), "not a network"));
  }
  return networks;
}

kj::Vector<Prefix> gatewaysOf(rpc::LocalCluster::Reader cluster) {
  auto gateways = networksOf(cluster);
  kj::StringPtr addresses[] = {cluster.getGateway(), cluster.getGateway6()};
  for (auto i : kj::indices(gateways)) gateways[i].address = Ip::require(addresses[i]);
  return gateways;
}

kj::Vector<Ip> addressesOf(rpc::LocalNode::Reader node) {
  kj::Vector<Ip> addresses;
  for (auto text : {node.getAddress(), node.getAddress6()}) {
    if (text.size() > 0) addresses.add(Ip::require(text));
  }
  return addresses;
}

}  // namespace talos::cluster
