#include "talosctl/cluster/network/cluster-addresses.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

namespace talos::cluster {
namespace {

template <typename List>
std::string joined(const List& list) {
  auto texts = KJ_MAP(item, list) {
    return item.toString();
  };
  return kj::strArray(texts, " ").cStr();
}

// Catches: two clusters with the same IPv6 network although their IPv4 networks differ.
TEST(ClusterAddresses, TheIpv6NetworkHasTheOctetsOfTheOther) {
  auto beside = [](kj::StringPtr cidr) {
    return std::string(ipv6Beside(KJ_ASSERT_NONNULL(Prefix::parse(cidr))).toString().cStr());
  };
  EXPECT_EQ(beside("10.5.0.0/24"), "fd74:616c:a05::/64");
  EXPECT_EQ(beside("10.5.0.128/25"), "fd74:616c:a05:80::/64");
  EXPECT_EQ(beside("192.168.7.0/24"), "fd74:616c:c0a8:700::/64");
}

// Catches: a missing family, or a gateway with the length of another network.
TEST(ClusterAddresses, AreOfOneFamilyOrOfBoth) {
  capnp::MallocMessageBuilder message;
  auto cluster = message.initRoot<rpc::LocalCluster>();
  auto node = cluster.initNodes(1)[0];
  cluster.setCidr("10.5.0.0/24");
  cluster.setGateway("10.5.0.1");
  node.setAddress("10.5.0.2");
  EXPECT_EQ(joined(networksOf(cluster)), "10.5.0.0/24");
  EXPECT_EQ(joined(gatewaysOf(cluster)), "10.5.0.1/24");
  EXPECT_EQ(joined(addressesOf(node)), "10.5.0.2");
  cluster.setCidr6("fd00::/64");
  cluster.setGateway6("fd00::1");
  node.setAddress6("fd00::2");
  EXPECT_EQ(joined(networksOf(cluster)), "10.5.0.0/24 fd00::/64");
  EXPECT_EQ(joined(gatewaysOf(cluster)), "10.5.0.1/24 fd00::1/64");
  EXPECT_EQ(joined(addressesOf(node)), "10.5.0.2 fd00::2");
}

}  // namespace
}  // namespace talos::cluster
