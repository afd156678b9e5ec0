#include <gtest/gtest.h>

#include "machined/platforms/readers/test-platform.h"

namespace talos::platforms {
namespace {

std::string networkOf(kj::StringPtr networkData) {
  return factsOf(kOpenstack, {{"network_data", networkData}});
}

// Catches: the default route of `routes` as one of the others, mtu, types of numbers.
TEST(Openstack, Facts) {
  EXPECT_EQ(
      factsOf(
          kOpenstack,
          {{"meta_data",
            R"({"uuid":"u-1","hostname":"n1.novalocal","availability_zone":"nova","project_id":"p"})"},
           {"instance-type", "m1.small"},
           {"public-ipv4", "203.0.113.4"},
           {"network_data",
            R"({"links":[{"id":"l0","type":"ovs","ethernet_mac_address":"fa:16:3e:00:00:02","mtu":1450}],
               "networks":[{"id":"n0","link":"l0","type":"ipv4","ip_address":"10.2.0.9",
                 "netmask":"255.255.255.0","routes":[
                   {"network":"0.0.0.0","netmask":"0.0.0.0","gateway":"10.2.0.1"},
                   {"network":"192.168.0.0","netmask":"255.255.0.0","gateway":"10.2.0.3"}]}],
               "services":[{"type":"dns","address":"10.2.0.2"}]})"}}),
      R"({"metadata":{"hostname":"n1.novalocal","zone":"nova","instanceType":"m1.small",)"
      R"("instanceId":"u-1","providerId":"openstack:///u-1"},"network":{"hostname":"n1.novalocal",)"
      R"("interfaces":[{"interface":"","addresses":["10.2.0.9/24"],)"
      R"("routes":[{"network":"0.0.0.0/0","gateway":"10.2.0.1","metric":1024},)"
      R"({"network":"192.168.0.0/16","gateway":"10.2.0.3","metric":1024}],"mtu":1450,)"
      R"("deviceSelector":{"hardwareAddr":"fa:16:3e:00:00:02"}}],"nameservers":["10.2.0.2"]},)"
      R"("externalAddresses":["203.0.113.4"]})");
}

// Catches: a bond of only the first link, miimon as text, delays that are not a multiple of it.
TEST(Openstack, BondWithVlan) {
  EXPECT_EQ(
      networkOf(
          R"({"links":[{"id":"a","type":"phy","ethernet_mac_address":"fa:16:3e:00:00:02"},
                       {"id":"b","type":"phy","ethernet_mac_address":"fa:16:3e:00:00:04","mtu":null},
                       {"id":"c","type":"bond","bond_mode":"802.3ad","bond_links":["a","b"],
                        "bond_miimon":"100","bond_xmit_hash_policy":"layer3+4"},
                       {"id":"d","type":"vlan","vlan_id":7,"vlan_link":"c"}],
              "networks":[{"id":"n0","link":"c","type":"ipv4_dhcp"},
                          {"id":"n1","link":"d","type":"ipv6_dhcpv6-stateful"}]})"),
      R"({"metadata":{},"network":{"interfaces":[{"interface":"bond0","mtu":0,"dhcp":true,)"
      R"("bond":{"interfaces":[],"mode":"802.3ad","miimon":100,"updelay":200,"downdelay":200,)"
      R"("xmitHashPolicy":"layer3+4","lacpRate":"fast","deviceSelectors":)"
      R"([{"hardwareAddr":"fa:16:3e:00:00:02"},{"hardwareAddr":"fa:16:3e:00:00:04"}]},)"
      R"("vlans":[{"vlanId":7,"cidr":"","dhcp":true,)"
      R"("dhcpOptions":{"routeMetric":1024,"ipv4":false,"ipv6":true}}],)"
      R"("dhcpOptions":{"routeMetric":1024}}]}})");
}

// Catches: a chain of VLANs that ends in itself, a network that vanishes without a message.
TEST(Openstack, LinksThatAreNone) {
  EXPECT_EQ(networkOf(R"({"links":[{"id":"a","type":"vlan","vlan_id":7,"vlan_link":"a"},
                             {"id":"b","type":"hyperv"}],
                    "networks":[{"id":"n0","link":"a","type":"ipv4_dhcp"},
                                {"id":"n1","link":"b","type":"ipv4_dhcp"},
                                {"id":"n2","link":"x","type":"ipv4_dhcp"}]})"),
            R"({"metadata":{},"network":{},"problems":[)"
            R"("network n0: there is no link \"a\" that a node can use; ignored",)"
            R"("network n1: there is no link \"b\" that a node can use; ignored",)"
            R"("network n2: there is no link \"x\" that a node can use; ignored"]})");
}

// Catches: an id beyond 16 bits that becomes another VLAN; a missing id that becomes VLAN 0.
TEST(Openstack, VlanIds) {
  auto idsOf = [](kj::StringPtr id) {
    return networkOf(
        kj::str(R"({"links":[{"id":"a","type":"phy"},{"id":"v","type":"vlan","vlan_link":"a")", id,
                R"(}],"networks":[{"id":"n0","link":"v","type":"ipv4_dhcp"}]})"));
  };
  EXPECT_NE(idsOf(R"(,"vlan_id":"4094")").find(R"("vlanId":4094)"), std::string::npos);
  struct Row {
    kj::StringPtr id, problem;
  };
  for (auto& row : std::initializer_list<Row>{
           {R"(,"vlan_id":70000)", R"(v: \"70000\" is not a valid VLAN id (0 to 4094); ignored)"},
           {R"(,"vlan_id":4095)", R"(v: \"4095\" is not a valid VLAN id (0 to 4094); ignored)"},
           {R"(,"vlan_id":-1)", R"(v: \"-1\" is not a valid VLAN id (0 to 4094); ignored)"},
           {R"(,"vlan_id":[5])", R"(v: \"[...]\" is not a valid VLAN id (0 to 4094); ignored)"},
           {"", "v: VLAN id (0 to 4094) is missing; ignored"}}) {
    EXPECT_EQ(idsOf(row.id),
              kj::str(R"({"metadata":{},"network":{},"problems":[")", row.problem,
                      R"(","network n0: there is no link \"v\" that a node can use; ignored"]})")
                  .cStr());
  }
}

// Catches: values of a network that are ignored without a message.
TEST(Openstack, ValuesThatAreNotValid) {
  EXPECT_EQ(
      networkOf(
          R"({"links":[{"id":"a","type":"bond","bond_mode":"fast","bond_miimon":"x","mtu":9,
                        "bond_links":["y"]}],
              "networks":[{"id":"n0","link":"a","type":"ipv4","ip_address":"10.2.0.9",
                "netmask":"255.0.255.0"},
               {"id":"n1","link":"a","type":"ipv4","ip_address":"10.2.0.9","gateway":"10.2.0",
                "routes":[{"network":"10.3.0.0/16","gateway":"z"},{"network":"10.4.0.0/16"},
                          {"network":"w","gateway":"10.2.0.1"}]},
               {"id":"n2","link":"a","type":"ipv5"}]})"),
      R"({"metadata":{},"network":{"interfaces":[{"interface":"bond0","addresses":["10.2.0.9/32"],)"
      R"("mtu":0,"bond":{"interfaces":[],"mode":"balance-rr","lacpRate":"fast"}}]},"problems":[)"
      R"("bond0: \"9\" is not a valid MTU (68 to 65536); ignored",)"
      R"("bond0: \"fast\" is not a valid bond_mode; ignored",)"
      R"("bond0: \"x\" is not a valid bond_miimon; ignored",)"
      R"("bond0: \"y\" is not a valid link; ignored",)"
      R"("bond0: \"10.2.0.9/255.0.255.0\" is not a valid address; ignored",)"
      R"("network n1: \"10.2.0\" is not a valid gateway; ignored",)"
      R"("network n1: \"z\" is not a valid gateway; ignored",)"
      R"("network n1: gateway to \"10.4.0.0/16\" is missing; ignored",)"
      R"("network n1: \"w\" is not a valid destination of a route; ignored",)"
      R"("network n2: type \"ipv5\" is not supported; ignored"]})");
}

}  // namespace
}  // namespace talos::platforms
