// Platforms whose metadata is one JSON document.
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "machined/platforms/readers/test-platform.h"

namespace talos::platforms {
namespace {

// Catches: the numbers of private links, the route to the service lost with the default route.
TEST(DigitalOcean, Facts) {
  EXPECT_EQ(
      factsOf(
          kDigitalOcean,
          {{"metadata",
            R"({"droplet_id":77,"hostname":"n1","region":"tst1","dns":{"nameservers":["192.0.2.53"]},
                   "interfaces":{"public":[{"type":"public","mac":"02:00:00:00:00:01",
                     "ipv4":{"ip_address":"198.51.100.9","netmask":"255.255.255.0","gateway":"198.51.100.1"},
                     "ipv6":{"ip_address":"2001:db8::9","cidr":64,"gateway":"2001:db8::1"},
                     "anchor_ipv4":{"ip_address":"10.17.0.5","netmask":"255.255.0.0"}}],
                   "private":[{"ipv4":{"ip_address":"10.1.0.2","netmask":"255.255.0.0"}}]}})"}}),
      R"({"metadata":{"hostname":"n1","region":"tst1","instanceId":"77","providerId":"digitalocean://77"},)"
      R"("network":{"hostname":"n1","interfaces":[{"interface":"",)"
      R"("addresses":["198.51.100.9/24","10.17.0.5/16","2001:db8::9/64"],)"
      R"("routes":[{"network":"0.0.0.0/0","gateway":"198.51.100.1","metric":1024},)"
      R"({"network":"169.254.169.254/32","gateway":"198.51.100.1","metric":512},)"
      R"({"network":"::/0","gateway":"2001:db8::1","metric":2048}],"mtu":0,)"
      R"("deviceSelector":{"hardwareAddr":"02:00:00:00:00:01"}},)"
      R"({"interface":"eth1","addresses":["10.1.0.2/16"],"mtu":0}],"nameservers":["192.0.2.53"]},)"
      R"("externalAddresses":["198.51.100.9","2001:db8::9"]})");
}

// Catches: an address of IPv6 from routers that is put on a link, the MTU of private networks.
TEST(Vultr, Facts) {
  EXPECT_EQ(
      factsOf(
          kVultr,
          {{"metadata",
            R"({"hostname":"n1","instance-v2-id":"v-1","region":{"regioncode":"TST"},"interfaces":[
                   {"network-type":"public","mac":"56:00:00:00:00:01","ipv4":{"address":"203.0.113.20",
                    "netmask":"255.255.254.0","gateway":"203.0.113.1"},
                    "ipv6":{"address":"2001:db8::2","network":"2001:db8::","prefix":"64"}},
                   {"network-type":"private","mac":"5a:00:00:00:00:01","ipv4":{"address":"",
                    "netmask":"","gateway":""}}]})"}}),
      R"({"metadata":{"hostname":"n1","region":"TST","instanceId":"v-1","providerId":"vultr://v-1"},)"
      R"("network":{"hostname":"n1","interfaces":[{"interface":"","addresses":["203.0.113.20/23"],)"
      R"("routes":[{"network":"0.0.0.0/0","gateway":"203.0.113.1","metric":1024}],"mtu":0,)"
      R"("deviceSelector":{"hardwareAddr":"56:00:00:00:00:01"}},)"
      R"({"interface":"","mtu":1450,"dhcp":true,"dhcpOptions":{"routeMetric":1024},)"
      R"("deviceSelector":{"hardwareAddr":"5a:00:00:00:00:01"}}]},)"
      R"("externalAddresses":["203.0.113.20","2001:db8::2"]})");
}

// Catches: a machine without any address if it has neither a static one nor DHCP; old names of
// zones.
TEST(Scaleway, Facts) {
  EXPECT_EQ(
      factsOf(kScaleway, {{"metadata",
                           R"({"id":"s-1","hostname":"n1","commercial_type":"DEV1-S",
                   "public_ip":{"address":"203.0.113.30","family":"inet"},
                   "public_ips_v4":[{"address":"203.0.113.30","netmask":"32","family":"inet"}],
                   "public_ips_v6":[{"address":"2001:db8::30","netmask":"64","gateway":"fe80::1"}],
                   "location":{"zone_id":"par1"}})"}}),
      R"({"metadata":{"hostname":"n1","region":"fr-par","zone":"fr-par-1","instanceType":"DEV1-S",)"
      R"("instanceId":"s-1","providerId":"scaleway://instance/fr-par-1/s-1"},)"
      R"("network":{"hostname":"n1","interfaces":[{"interface":"eth0","addresses":["2001:db8::30/64"],)"
      R"("routes":[{"network":"169.254.42.42/32","gateway":"","metric":4096},)"
      R"({"network":"::/0","gateway":"fe80::1","metric":2048}],"mtu":0,"dhcp":true,)"
      R"("dhcpOptions":{"routeMetric":1024}}]},"externalAddresses":["203.0.113.30","2001:db8::30"]})");
  EXPECT_NE(factsOf(kScaleway, {{"metadata", R"({"public_ips_v4":[]})"}}).find(R"("dhcp":true)"),
            std::string::npos);
}

// Catches: the domain's prefix as zone, DHCPv6 where there is no router.
TEST(Oracle, Facts) {
  auto instance =
      R"({"id":"ocid1.x","hostname":"n1","region":"tst","availabilityDomain":"Ab:TST-AD-1","shape":"VM.T1"})"_kj;
  constexpr auto kMetadata =
      R"({"metadata":{"hostname":"n1","region":"tst","zone":"TST-AD-1","instanceType":"VM.T1",)"
      R"("instanceId":"ocid1.x","providerId":"oci://ocid1.x"},)";
  EXPECT_EQ(
      factsOf(kOracle,
              {{"instance", instance},
               {"vnics", R"([{"macAddr":"02:00:17:00:00:01","ipv6SubnetCidrBlock":"2001:db8:3::/64",
                             "ipv6VirtualRouterIp":"fe80::1"},{"macAddr":"02:00:17:00:00:02"}])"}}),
      std::string(kMetadata) +
          R"("network":{"hostname":"n1","interfaces":[{"interface":"",)"
          R"("routes":[{"network":"::/0","gateway":"fe80::1","metric":2048}],"mtu":0,"dhcp":true,)"
          R"("dhcpOptions":{"routeMetric":1024,"ipv6":true},)"
          R"("deviceSelector":{"hardwareAddr":"02:00:17:00:00:01"}}],"nameservers":["169.254.169.254"]},)"
          R"("timeServers":["169.254.169.254"]})");
  EXPECT_EQ(factsOf(kOracle, {{"instance", instance}}),
            std::string(kMetadata) +
                R"("network":{"hostname":"n1","nameservers":["169.254.169.254"]},)"
                R"("timeServers":["169.254.169.254"]})");
}

// Catches: members by names that the kernel does not use, the default route of private addresses.
TEST(EquinixMetal, Facts) {
  EXPECT_EQ(
      factsOf(kEquinixMetal,
              {{"metadata",
                R"({"id":"e-1","hostname":"n1","plan":"c3.small","metro":"ts","facility":"ts1",
                   "private_subnets":["10.0.0.0/8"],"network":{"bonding":{"mode":4},
                   "interfaces":[{"name":"eth0","mac":"68:05:ca:00:00:01","bond":"bond0"},
                                 {"name":"eth1","bond":"bond0"}],
                   "addresses":[
                    {"address_family":4,"public":true,"management":true,"enabled":true,"cidr":31,
                     "address":"198.51.100.41","gateway":"198.51.100.40"},
                    {"address_family":4,"public":false,"management":true,"enabled":true,"cidr":31,
                     "address":"10.68.0.1","gateway":"10.68.0.0"},
                    {"address_family":4,"public":true,"management":false,"enabled":true,"cidr":31,
                     "address":"198.51.100.51","gateway":"198.51.100.50"}]}})"}}),
      R"({"metadata":{"hostname":"n1","region":"ts","zone":"ts1","instanceType":"c3.small",)"
      R"("instanceId":"e-1","providerId":"equinixmetal://e-1"},"network":{"hostname":"n1",)"
      R"("interfaces":[{"interface":"bond0","addresses":["198.51.100.41/31","10.68.0.1/31"],)"
      R"("routes":[{"network":"0.0.0.0/0","gateway":"198.51.100.40","metric":1024},)"
      R"({"network":"10.0.0.0/8","gateway":"10.68.0.0","metric":1024}],"mtu":0,)"
      R"("bond":{"interfaces":["eth1"],"mode":"802.3ad","miimon":100,"updelay":200,"downdelay":200,)"
      R"("xmitHashPolicy":"layer3+4","deviceSelectors":[{"hardwareAddr":"68:05:ca:00:00:01"}]}}]},)"
      R"("externalAddresses":["198.51.100.41"]})");
}

// Catches: an option that the mode does not use, which networkd reports as a problem.
TEST(EquinixMetal, ABondHasThePolicyThatItsModeUses) {
  auto policyIn = [](kj::StringPtr mode) {
    auto metadata = kj::str(R"({"network":{"bonding":{"mode":)", mode,
                            R"(},"interfaces":[{"name":"eth0","bond":"bond0"}]}})");
    return factsOf(kEquinixMetal, {{"metadata", metadata}}).find("xmitHashPolicy");
  };
  EXPECT_EQ(std::string::npos, policyIn("1"));
  EXPECT_NE(std::string::npos, policyIn("5"));
}

TEST(Upcloud, Facts) {
  EXPECT_EQ(
      factsOf(kUpcloud,
              {{"metadata",
                R"({"instance_id":"u-1","hostname":"n1","region":"ts-1","network":{"interfaces":[
                   {"index":1,"ip_addresses":[{"address":"203.0.113.6","dhcp":true,"family":"IPv4",
                    "network":"203.0.113.0/24","gateway":"203.0.113.1","dns":null}]},
                   {"index":2,"ip_addresses":[{"address":"10.2.0.6","dhcp":false,
                    "network":"10.2.0.0/22","gateway":"","dns":["10.2.0.53","10.2.0.53"]}]}]}})"}}),
      R"({"metadata":{"hostname":"n1","zone":"ts-1","instanceId":"u-1","providerId":"upcloud://u-1"},)"
      R"("network":{"hostname":"n1","interfaces":[{"interface":"eth0","mtu":0,"dhcp":true,)"
      R"("dhcpOptions":{"routeMetric":1024}},{"interface":"eth1","addresses":["10.2.0.6/22"],"mtu":0}],)"
      R"("nameservers":["10.2.0.53"]},"externalAddresses":["203.0.113.6"]})");
}

// Catches: a lost default route, which only the lease has; a range taken for an address.
TEST(Akamai, Facts) {
  EXPECT_EQ(
      factsOf(kAkamai,
              {{"instance", R"({"id":5,"label":"n1","region":"ts-east","type":"g6-1"})"},
               {"network",
                R"({"ipv4":{"public":["203.0.113.5/32"],"private":["192.168.1.5/17"],"shared":[]},
                              "ipv6":{"slaac":"2001:db8::5/128","ranges":["2001:db8:5::/64"]}})"}}),
      R"({"metadata":{"hostname":"n1","region":"ts-east","instanceType":"g6-1","instanceId":"5",)"
      R"("providerId":"linode://5"},"network":{"hostname":"n1","interfaces":[{"interface":"eth0",)"
      R"("addresses":["203.0.113.5/32","192.168.1.5/17"],"mtu":0,"dhcp":true,)"
      R"("dhcpOptions":{"routeMetric":1024}}]},"externalAddresses":["203.0.113.5","2001:db8::5"]})");
}

// Catches: values of a wrong shape that end in anything but a problem, a text that is not a
// document.
TEST(Documents, InvalidDocumentsEndInAProblem) {
  EXPECT_NE(factsOf(kVultr, {{"metadata", R"({"interfaces":[{"ipv4":{"address":"1.2.3"}}]})"}})
                .find(R"("problems":["eth0: \"1.2.3\" is not a valid address; ignored"])"),
            std::string::npos);
  EXPECT_EQ(factsOf(kVultr, {{"metadata", R"(["a"])"}}),
            R"({"metadata":{"providerId":"vultr://"},"network":{}})");
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([] { factsOf(kVultr, {{"metadata", "{\"a\": "}}); })) {
    EXPECT_TRUE(messageOf(*e).startsWith("metadata:1:")) << messageOf(*e).cStr();
  } else {
    ADD_FAILURE() << "half a document was read";
  }
}

// Catches: addresses, gateways and other values that are ignored without a message.
TEST(Documents, ValuesThatAreNotValid) {
  struct Row {
    const Platform& platform;
    kj::StringPtr answer, document;
    std::string problems;
  };
  for (auto& row : std::initializer_list<Row>{
           {kDigitalOcean, "metadata",
            R"({"interfaces":{"public":[{"mac":"x","ipv4":{"ip_address":"192.0.2.9","netmask":"y",
               "gateway":"192.0.2.1"},"ipv6":{"ip_address":"2001:db8::9","cidr":64,
               "gateway":"z"}}]},"dns":{"nameservers":["w"]}})",
            R"("DNS servers: \"w\" is not a valid address; ignored",)"
            R"("eth0: \"x\" is not a valid hardware address; ignored",)"
            R"("eth0: \"192.0.2.9/y\" is not a valid address; ignored",)"
            R"("eth0: \"z\" is not a valid gateway; ignored")"},
           {kVultr, "metadata",
            R"({"interfaces":[{"network-type":"public","ipv4":{"address":"192.0.2.9",
               "netmask":"255.255.255.0","gateway":"192.0.2"},"ipv6":{"address":"x"}}]})",
            R"("eth0: \"192.0.2\" is not a valid gateway; ignored",)"
            R"("external addresses: \"x\" is not a valid address; ignored")"},
           {kScaleway, "metadata",
            R"({"ipv6":{"address":"2001:db8::9","netmask":64,"gateway":"x"}})",
            R"("eth0: \"x\" is not a valid gateway; ignored")"},
           {kScaleway, "metadata", R"({"public_ips_v6":[{"address":"2001:db8::9","netmask":129}]})",
            R"("eth0: \"2001:db8::9/129\" is not a valid address; ignored")"},
           {kOracle, "vnics",
            R"([{"ipv6SubnetCidrBlock":"2001:db8:3::/64","ipv6VirtualRouterIp":"x"}])",
            R"("eth0: \"x\" is not a valid gateway; ignored")"},
           {kEquinixMetal, "metadata",
            R"({"private_subnets":["x"],"network":{"bonding":{"mode":4},
               "interfaces":[{"name":"eth0","bond":"bond0"}],"addresses":[
               {"enabled":true,"management":true,"address":"192.0.2","cidr":31},
               {"enabled":true,"management":true,"address":"192.0.2.9","cidr":31,"gateway":"y"},
               {"enabled":true,"management":true,"address":"10.0.0.9","cidr":31,
                "gateway":"10.0.0.1"}]}})",
            R"("bond0: \"192.0.2\" is not a valid address; ignored",)"
            R"("bond0: \"y\" is not a valid gateway; ignored",)"
            R"("private_subnets: \"x\" is not a valid network; ignored")"},
           {kEquinixMetal, "metadata", R"({"network":{"bonding":{"mode":"lacp"}}})",
            R"("bonding: \"lacp\" is not a valid mode (0 to 6); the bonds are ignored")"},
           {kUpcloud, "metadata",
            R"({"network":{"interfaces":[{"index":1,"ip_addresses":[{"address":"x"},
               {"address":"192.0.2.9","network":"y","gateway":"z"}]}]}})",
            R"("eth0: \"x\" is not a valid address; ignored",)"
            R"("eth0: \"y\" is not a valid network; ignored",)"
            R"("eth0: \"z\" is not a valid gateway; ignored")"},
           {kAkamai, "network", R"({"ipv4":{"public":["x",{"a":1}]},"ipv6":{"slaac":"y"}})",
            R"("eth0: \"x\" is not a valid address; ignored",)"
            R"("eth0: \"{...}\" is not a valid address; ignored",)"
            R"("eth0: \"y\" is not a valid address; ignored")"}}) {
    auto facts = factsOf(row.platform, {{row.answer, row.document}});
    auto begin = facts.find(R"("problems":[)");
    ASSERT_NE(begin, std::string::npos) << row.platform.name.cStr() << facts;
    EXPECT_EQ(facts.substr(begin), R"("problems":[)" + row.problems + "]}");
  }
}

}  // namespace
}  // namespace talos::platforms
