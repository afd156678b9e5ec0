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

// Catches: an address with a separate mask, the family taken from the type's name, members of a
// bond by names that the kernel does not use.
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

// Catches: routes of a subnet, or their masks, ignored; delays of a bond by the names of version 2.
TEST(Nocloud, RoutesOfVersion1) {
  EXPECT_EQ(
      cloudNetworkOf(
          "version: 1\n"
          "config:\n"
          "- {type: physical, name: p1, subnets: [{type: static, address: 192.0.2.10/24, control: "
          "auto,\n"
          "   broadcast: 192.0.2.255, routes: [{network: 10.0.0.0, netmask: 255.0.0.0, gateway: "
          "192.0.2.2},\n"
          "   {destination: '2001:db8:1::/48', gateway: 'fe80::2', metric: 7},\n"
          "   {network: 0.0.0.0, netmask: 0.0.0.0, gateway: 192.0.2.1}]}]}\n"
          "- {type: bond, name: bond0, bond_interfaces: [p2], params: {bond-miimon: 100, "
          "bond-updelay: 200, bond-downdelay: 300}}\n"),
      R"({"metadata":{},"network":{"interfaces":[{"interface":"p1","addresses":["192.0.2.10/24"],)"
      R"("routes":[{"network":"10.0.0.0/8","gateway":"192.0.2.2","metric":1024},)"
      R"({"network":"2001:db8:1::/48","gateway":"fe80::2","metric":7},)"
      R"({"network":"0.0.0.0/0","gateway":"192.0.2.1","metric":1024}],"mtu":0},)"
      R"({"interface":"bond0","mtu":0,"bond":{"interfaces":["p2"],"mode":"balance-rr",)"
      R"("miimon":100,"updelay":200,"downdelay":300}}]}})");
}

// Returns the problems of a network configuration, or all facts if it has no problems.
std::string problemsOf(kj::StringPtr config) {
  constexpr std::string_view kBefore = R"("problems":[)", kBehind = "]}";
  auto facts = cloudNetworkOf(config);
  auto begin = facts.find(kBefore);
  if (begin == std::string::npos) return facts;
  auto problems = facts.substr(begin + kBefore.size());
  return problems.substr(0, problems.size() - kBehind.size());
}

// Catches: keys that a node does not apply, and values that are not valid, without a message.
TEST(Nocloud, ProblemsOfVersion1) {
  auto entry = [](kj::StringPtr rest) {
    return problemsOf(kj::str("version: 1\nconfig: [{name: p1, ", rest, "}]\n"));
  };
  auto subnet = [&](kj::StringPtr rest) {
    return entry(kj::str("type: physical, subnets: [{", rest, "}]"));
  };
  struct Row {
    std::string problems, expected;
  };
  for (auto& row : std::initializer_list<Row>{
           {entry("type: physical, mac_address: x, mtu: 1500x, accept-ra: true"),
            R"("p1: accept-ra is not supported; ignored",)"
            R"("p1: \"x\" is not a valid hardware address; ignored",)"
            R"("p1: \"1500x\" is not a valid MTU (68 to 65536); ignored")"},
           {entry("type: vlan, vlan_link: p0"), R"("p1: VLAN id (0 to 4094) is missing; ignored")"},
           {entry("type: vlan, vlan_id: 5"), R"("p1: vlan_link is missing; ignored")"},
           {entry("type: vlan, vlan_link: p0, vlan_id: five"),
            R"("p1: \"five\" is not a valid VLAN id (0 to 4094); ignored")"},
           {entry("type: bond, bond_interfaces: [[p0]], params: {bond-miimon: often, bond-mode: "
                  "fast, bond-primary: p0}"),
            R"("p1: \"[...]\" is not a valid interface; ignored",)"
            R"("p1: bond-primary is not supported; ignored",)"
            R"("p1: \"fast\" is not a valid bond-mode; ignored",)"
            R"("p1: \"often\" is not a valid bond-miimon; ignored")"},
           {entry("type: nameserver, address: 192.0.2, search: [lab]"),
            R"("network-config: nameserver: name is not supported; ignored",)"
            R"("network-config: nameserver: search is not supported; ignored",)"
            R"("DNS servers: \"192.0.2\" is not a valid address; ignored")"},
           {entry("type: bridge"),
            R"("network-config: an entry of type \"bridge\" is not supported; ignored")"},
           {subnet("type: static, address: 192.0.2.9/24, gateway: x, dns_search: [lab]"),
            R"("p1: dns_search is not supported; ignored",)"
            R"("p1: \"x\" is not a valid gateway; ignored")"},
           {subnet("type: static"), R"("p1: address is missing; ignored")"},
           {subnet("type: ipv6_dhcpv6-stateless, control: manual"),
            R"("p1: control \"manual\" is not supported; ignored",)"
            R"("p1: a subnet of type \"ipv6_dhcpv6-stateless\" is not supported; ignored")"},
           {subnet("type: manual, routes: [{network: 10.0.0.0/8}, {gateway: 192.0.2.1, network: x},"
                   "{network: 10.0.0.0/8, gateway: 192.0.2.1, metric: low, mtu: 9}]"),
            R"("p1: route to \"10.0.0.0/8\": gateway is missing; ignored",)"
            R"("p1: \"x\" is not a valid destination of a route; ignored",)"
            R"("p1: routes: mtu is not supported; ignored",)"
            R"("p1: routes: \"low\" is not a valid metric; ignored")"}}) {
    EXPECT_EQ(row.problems, row.expected);
  }
  EXPECT_EQ(problemsOf("version: 1\nconfig: []\nethernets: {}\n"),
            R"("network-config: ethernets is not supported; ignored")");
}

// Catches: keys that a node does not apply, and values that are not valid, without a message.
TEST(Nocloud, ProblemsOfVersion2) {
  auto link = [](kj::StringPtr rest) {
    return problemsOf(kj::str("version: 2\nethernets: {e: {", rest, "}}\n"));
  };
  struct Row {
    std::string problems, expected;
  };
  for (auto& row : std::initializer_list<Row>{
           {link("gateway4: x, gateway6: [y], optional: true"),
            R"("e: \"x\" is not a valid gateway; ignored",)"
            R"("e: \"[...]\" is not a valid gateway; ignored")"},
           {link("accept-ra: false, wakeonlan: true, link-local: null"),
            R"("e: accept-ra is not supported; ignored","e: wakeonlan is not supported; ignored")"},
           {link("mtu: 67, dhcp4: maybe"),
            R"("e: \"67\" is not a valid MTU (68 to 65536); ignored",)"
            R"("e: \"maybe\" is not a valid dhcp4; ignored")"},
           {link("dhcp4: true, dhcp4-overrides: {route-metric: x, use-dns: false}"),
            R"("e: dhcp4-overrides: use-dns is not supported; ignored",)"
            R"("e: dhcp4-overrides: \"x\" is not a valid route-metric; ignored")"},
           {link("dhcp4: true, dhcp6: true, dhcp6-overrides: {route-metric: 5}"),
            R"("e: a route-metric of DHCPv6 other than that of DHCPv4 is not supported; ignored")"},
           {link("nameservers: {addresses: [x], search: [lab]}"),
            R"("e: nameservers: search is not supported; ignored",)"
            R"("DNS servers: \"x\" is not a valid address; ignored")"},
           {link("routes: [{to: x, via: 192.0.2.1}, {to: default, via: y, table: 5}]"),
            R"("e: \"x\" is not a valid destination of a route; ignored",)"
            R"("e: routes: table is not supported; ignored",)"
            R"("e: route to \"default\": \"y\" is not a valid gateway; ignored")"},
           {problemsOf("version: 2\nbonds: {b: {macaddress: x, interfaces: [{}], parameters: "
                       "{primary: p0, up-delay: soon}}}\n"),
            R"("b: macaddress is not supported; ignored",)"
            R"("b: \"{...}\" is not a valid interface; ignored",)"
            R"("b: primary is not supported; ignored",)"
            R"("b: \"soon\" is not a valid up-delay; ignored")"},
           {problemsOf("version: 2\nvlans: {v: {id: 5}, w: {link: e}}\n"),
            R"("v: link is missing; ignored","w: VLAN id (0 to 4094) is missing; ignored")"}}) {
    EXPECT_EQ(row.problems, row.expected);
  }
}

// Catches: a link named by the id of an entry that selects other links: in this entry, a bond or a
// VLAN.
TEST(Nocloud, MatchesOfVersion2) {
  auto facts = [](kj::StringPtr match) {
    return cloudNetworkOf(kj::str("version: 2\nethernets: {id0: {match: {", match,
                                  "}, dhcp4: true}}\nvlans: {v: {id: 5, link: id0}}\n"
                                  "bonds: {b: {interfaces: [id0]}}\n"));
  };
  const std::string kBondAlone =
      R"({"metadata":{},"network":{"interfaces":[{"interface":"b","mtu":0,)"
      R"("bond":{"interfaces":[],"mode":"balance-rr"}}]},"problems":[)";
  EXPECT_EQ(
      facts("name: 'en*'"),
      kBondAlone +
          R"("id0: match: the pattern \"en*\" is not supported; use macaddress or the name of )"
          R"(one link; id0 is ignored"]})");
  EXPECT_EQ(facts("driver: virtio_net"),
            kBondAlone +
                R"("id0: match: driver is not supported; use macaddress or the name of one link; )"
                R"(id0 is ignored"]})");
  EXPECT_EQ(facts("macaddress: x"),
            kBondAlone + R"("id0: match: \"x\" is not a valid hardware address; ignored"]})");
  EXPECT_EQ(facts("name: ens3"),
            R"({"metadata":{},"network":{"interfaces":[{"interface":"ens3","mtu":0,"dhcp":true,)"
            R"("vlans":[{"vlanId":5,"cidr":"","dhcp":false}],"dhcpOptions":{"routeMetric":1024}},)"
            R"({"interface":"b","mtu":0,"bond":{"interfaces":["ens3"],"mode":"balance-rr"}}]}})");
  // With a hardware address no other selector is needed.
  EXPECT_EQ(facts("macaddress: '52:54:00:00:00:02', driver: virtio_net").find("problems"),
            std::string::npos);
}

// Catches: documents that make unlimited facts, or that are truncated without a message.
TEST(Nocloud, MostAddressesAndRoutes) {
  auto listOf = [](unsigned count, auto item) {
    kj::Vector<kj::String> items;
    for (unsigned i = 0; i < count; ++i) items.add(item(i));
    return kj::str("[", kj::strArray(items, ", "), "]");
  };
  auto address = [](unsigned i) { return kj::str("10.0.", i / 250, ".", i % 250 + 1, "/16"); };
  auto route = [](unsigned i) {
    return kj::str("{to: 10.", i / 250, ".", i % 250, ".0/24, via: 10.0.0.1}");
  };
  auto config = [&](unsigned count) {
    return kj::str("version: 2\nethernets: {e: {addresses: ", listOf(count, address),
                   ", routes: ", listOf(count, route), "}}\n");
  };
  EXPECT_EQ(problemsOf(config(kMostAddresses)).find("ignored"), std::string::npos);
  for (unsigned count : {kMostAddresses + 1, kMostAddresses + 50}) {
    EXPECT_EQ(problemsOf(config(count)), R"("e: more than 256 addresses; the others are ignored",)"
                                         R"("e: more than 256 routes; the others are ignored")");
  }
}

// Catches: parts that are ignored without a message.
TEST(Nocloud, IgnoredPartsAreReported) {
  EXPECT_EQ(
      cloudNetworkOf("version: 2\n"
                     "bridges: {b: {}}\n"
                     "ethernets: {e: {addresses: [x], routes: [{to: 10.0.0.0/8}]}}\n"
                     "bonds: {bond0: {parameters: {mode: fast}}}\n"
                     "vlans: {v: {id: 5000, link: e}}\n"),
      R"({"metadata":{},"network":{"interfaces":[{"interface":"e","mtu":0},)"
      R"({"interface":"bond0","mtu":0,"bond":{"interfaces":[],"mode":"balance-rr"}}]},"problems":[)"
      R"("network-config: bridges is not supported; ignored",)"
      R"("e: \"x\" is not a valid address; ignored",)"
      R"("e: route to \"10.0.0.0/8\": gateway is missing; ignored",)"
      R"("bond0: \"fast\" is not a valid mode; ignored",)"
      R"("v: \"5000\" is not a valid VLAN id (0 to 4094); ignored"]})");
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
