#include "common/config/kubernetes/cluster-networks.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

namespace talos::config {
namespace {

struct ClusterNetworks : public testing::Test {
  capnp::MallocMessageBuilder message;
  Cluster::Builder cluster = message.initRoot<Cluster>();
  ClusterNetworks() { cluster.initControlPlane().setEndpoint("https://10.5.0.2:6443"); }
  ~ClusterNetworks() noexcept override {}

  void services(std::initializer_list<kj::StringPtr> subnets) {
    auto list = cluster.initNetwork().initServiceSubnets(static_cast<unsigned>(subnets.size()));
    for (auto i : kj::indices(subnets)) list.set(i, subnets.begin()[i]);
  }
  std::string dns() { return kj::strArray(dnsServiceAddresses(cluster), " ").cStr(); }
  std::string api() { return kj::strArray(apiServiceAddresses(cluster), " ").cStr(); }
};

TEST_F(ClusterNetworks, HaveDefaultsOfTheEndpointsFamily) {
  EXPECT_EQ("10.96.0.1", api());
  EXPECT_EQ("10.96.0.10", dns());
  EXPECT_EQ("10.244.0.0/16", kj::strArray(podSubnets(cluster), " "));
  EXPECT_EQ("cluster.local", dnsDomain(cluster));
  cluster.getControlPlane().setEndpoint("https://[fd00::2]:6443");
  EXPECT_EQ("fc00:db8:20::1", api());
  EXPECT_EQ("fc00:db8:10::/56", kj::strArray(podSubnets(cluster), " "));
}

// Catches: an address that is counted from the one that the config happens to name.
TEST_F(ClusterNetworks, CountsFromTheBeginningOfANetwork) {
  services({"10.100.0.7/16", "fd00:1::/112"});
  EXPECT_EQ("10.100.0.1 fd00:1::1", api());
  EXPECT_EQ("10.100.0.10 fd00:1::a", dns());
}

}  // namespace
}  // namespace talos::config
