#include <gtest/gtest.h>

#include "common/base/error.h"
#include "machined/platforms/readers/test-platform.h"

namespace talos::platforms {
namespace {

std::string cloudNetworkOf(kj::StringPtr config) {
  return factsOf(kNocloud, {{"network-config", config}});
}

TEST(Nocloud, Names) {
  EXPECT_EQ(
      factsOf(kNocloud, {{"meta-data",
                          R"({instance-id: i-42, local-hostname: node-a.lab.example,
                                   provider-id: "proxmox://dc1/100", region: dc1, zone: pve1})"}}),
      R"({"metadata":{"hostname":"node-a.lab.example","region":"dc1","zone":"pve1",)"
      R"("instanceId":"i-42","providerId":"proxmox://dc1/100","internalDNS":"node-a.lab.example"},)"
      R"("network":{"hostname":"node-a.lab.example"}})");
  EXPECT_EQ(factsOf(kNocloud, {{"user-data", "#cloud-config\nhostname: p1.lab\n"}}),
            R"({"metadata":{"hostname":"p1.lab"},"network":{"hostname":"p1.lab"}})");
  EXPECT_EQ(factsOf(kNocloud, {{"user-data", "machine:\n  hostname: p1.lab\n"}}),
            R"({"metadata":{},"network":{}})");
}

// Catches: an address with a mask beside it, the family taken from the type's name, members of a
// bond by names that the kernel does not give.
TEST(Nocloud, NetworkVersion1) {
  EXPECT_EQ(
      cloudNetworkOf(
          "version: 1\n"
          "config:\n"
          "- {type: physical, name: p0, mac_address: '52:54:00:00:00:01', mtu: 9000}\n"
          "- {type: physical, name: p1, subnets: [{type: static, address: 192.0.2.10,\n"
          "   netmask: 255.255.255.0, gateway: 192.0.2.1}, {type: static, address: "
          "'2001:db8::a/64',\n"
          "   gateway: 'fe80::1'}]}\n"
          "- {type: bond, name: bond0, bond_interfaces: [p0, p2], params: {bond-mode: "
          "active-backup,\n"
          "   bond-miimon: 50}, subnets: [{type: dhcp4}]}\n"
          "- {type: vlan, name: v5, vlan_id: 5, vlan_link: bond0, subnets: [{type: manual}]}\n"
          "- {type: nameserver, address: 192.0.2.53}\n"),
      R"({"metadata":{},"network":{"interfaces":[)"
      R"({"interface":"","mtu":9000,"deviceSelector":{"hardwareAddr":"52:54:00:00:00:01"}},)"
      R"({"interface":"p1","addresses":["192.0.2.10/24","2001:db8::a/64"],)"
      R"("routes":[{"network":"0.0.0.0/0","gateway":"192.0.2.1","metric":1024},)"
      R"({"network":"::/0","gateway":"fe80::1","metric":2048}],"mtu":0},)"
      R"({"interface":"bond0","mtu":0,"dhcp":true,"bond":{"interfaces":["p2"],"mode":"active-backup",)"
      R"("miimon":50,"deviceSelectors":[{"hardwareAddr":"52:54:00:00:00:01"}]},)"
      R"("vlans":[{"vlanId":5,"cidr":"","dhcp":false}],)"
      R"("dhcpOptions":{"routeMetric":1024}}],"nameservers":["192.0.2.53"]}})");
}

// Catches: "default" as a destination, metrics of the two families, a link that is renamed.
TEST(Nocloud, NetworkVersion2) {
  EXPECT_EQ(
      cloudNetworkOf(
          "network:\n"
          "  version: 2\n"
          "  ethernets:\n"
          "    p1: {match: {macaddress: '52:54:00:00:00:02'}, dhcp4: true, dhcp4-overrides: "
          "{route-metric: 50}}\n"
          "    p0: {set-name: eth0, addresses: [192.0.2.10/24], gateway4: 192.0.2.1,\n"
          "         nameservers: {addresses: [192.0.2.53]},\n"
          "         routes: [{to: default, via: 'fe80::1', on-link: true}, {to: 10.0.0.0/8, "
          "via: 192.0.2.2, metric: 7}]}\n"
          "  vlans:\n"
          "    v7: {id: 7, link: p1, dhcp6: true}\n"),
      R"({"metadata":{},"network":{"interfaces":[)"
      R"({"interface":"eth0","addresses":["192.0.2.10/24"],)"
      R"("routes":[{"network":"0.0.0.0/0","gateway":"192.0.2.1","metric":1024},)"
      R"({"network":"::/0","gateway":"fe80::1","metric":2048,"onlink":true},)"
      R"({"network":"10.0.0.0/8","gateway":"192.0.2.2","metric":7}],"mtu":0},)"
      R"({"interface":"","mtu":0,"dhcp":true,"vlans":[{"vlanId":7,"cidr":"","dhcp":true,)"
      R"("dhcpOptions":{"routeMetric":1024,"ipv4":false,"ipv6":true}}],)"
      R"("dhcpOptions":{"routeMetric":50},"deviceSelector":{"hardwareAddr":"52:54:00:00:00:02"}}],)"
      R"("nameservers":["192.0.2.53"]}})");
}

// Catches: parts that are passed over without a word.
TEST(Nocloud, WhatIsLeftOut) {
  EXPECT_EQ(
      cloudNetworkOf("version: 2\n"
                     "bridges: {b: {}}\n"
                     "ethernets: {e: {addresses: [x], routes: [{to: 10.0.0.0/8}]}}\n"
                     "bonds: {bond0: {parameters: {mode: fast}}}\n"
                     "vlans: {v: {id: 5000, link: e}}\n"),
      R"({"metadata":{},"network":{"interfaces":[{"interface":"e","mtu":0},)"
      R"({"interface":"bond0","mtu":0,"bond":{"interfaces":[],"mode":"balance-rr"}}]},"problems":[)"
      R"("e: \"x\" is no address; it is left out",)"
      R"("e: the route to \"10.0.0.0/8\" needs a destination and the address of a gateway in \"via\"; it is left out",)"
      R"("bond0: mode \"fast\" is unknown; it is left out",)"
      R"("v: \"5000\" is no VLAN id; it is left out",)"
      R"("network-config: \"bridges\" is left out"]})");
  for (auto& [text, problem] :
       {std::pair{"version: 3"_kj, "network-config: version \"3\" is neither 1 nor 2"_kj},
        std::pair{"ethernets: {}"_kj, "network-config: there is no key \"version\""_kj}}) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { cloudNetworkOf(text); })) {
      EXPECT_EQ(messageOf(*e), problem);
    } else {
      ADD_FAILURE() << text.cStr();
    }
  }
}

}  // namespace
}  // namespace talos::platforms
