// Platforms whose metadata is one key a file: Amazon EC2, Google, Hetzner, Exoscale, CloudStack.
#include <gtest/gtest.h>

#include "machined/platforms/readers/test-platform.h"

namespace talos::platforms {
namespace {

// Catches: a provider id that the cloud's controller does not know, DNS names exchanged, an
// external address that is put on a link.
TEST(Aws, Facts) {
  EXPECT_EQ(
      factsOf(kAws, {{"hostname", "ip-10-0-0-5.eu-test-1.compute.internal\n"},
                     {"instance-type", "t3.small"},
                     {"life-cycle", "spot"},
                     {"instance-id", "i-0abc"},
                     {"public-ipv4", "203.0.113.7"},
                     {"ipv6", "2001:db8::7"},
                     {"local-hostname", "ip-10-0-0-5.eu-test-1.compute.internal"},
                     {"public-hostname", "ec2-203-0-113-7.compute.amazonaws.com"},
                     {"region", "eu-test-1"},
                     {"zone", "eu-test-1a"}}),
      R"({"metadata":{"hostname":"ip-10-0-0-5.eu-test-1.compute.internal","region":"eu-test-1",)"
      R"("zone":"eu-test-1a","instanceType":"t3.small","instanceId":"i-0abc",)"
      R"("providerId":"aws:///eu-test-1a/i-0abc","spot":true,)"
      R"("internalDNS":"ip-10-0-0-5.eu-test-1.compute.internal",)"
      R"("externalDNS":"ec2-203-0-113-7.compute.amazonaws.com"},)"
      R"("network":{"hostname":"ip-10-0-0-5.eu-test-1.compute.internal"},)"
      R"("timeServers":["169.254.169.123"],"externalAddresses":["203.0.113.7","2001:db8::7"]})");
}

// Catches: missing keys (404) taken for values.
TEST(Aws, AbsentKeysAreEmpty) {
  EXPECT_EQ(
      factsOf(kAws, {{"instance-id", "i-1"}, {"zone", "z"}}),
      R"({"metadata":{"zone":"z","instanceId":"i-1","providerId":"aws:///z/i-1"},"network":{},)"
      R"("timeServers":["169.254.169.123"]})");
}

// Catches: paths of projects as zone and type, the region with the zone's letter, an IPv6 default
// route without an address, mtu lost.
TEST(Gcp, Facts) {
  EXPECT_EQ(
      factsOf(kGcp, {{"project", "p-1"},
                     {"name", "n1"},
                     {"id", "42"},
                     {"hostname", "n1.c.p-1.internal"},
                     {"zone", "projects/1/zones/eu-t1-a"},
                     {"machine-type", "projects/1/machineTypes/e2-small"},
                     {"preemptible", "TRUE"},
                     {"interfaces",
                      R"([{"accessConfigs":[{"externalIp":"203.0.113.7","type":"ONE_TO_ONE_NAT"},
                    {"externalIp":"203.0.113.8","type":"OTHER"}],"gateway":"10.1.0.1","ip":"10.1.0.4",
                    "ipv6":["fd20:1::/96"],"gatewayIpv6":"fe80::1","mtu":1460,
                    "mac":"42:01:0A:01:00:04"}])"}}),
      R"({"metadata":{"hostname":"n1.c.p-1.internal","region":"eu-t1","zone":"eu-t1-a",)"
      R"("instanceType":"e2-small","instanceId":"42","providerId":"gce://p-1/eu-t1-a/n1","spot":true},)"
      R"("network":{"hostname":"n1.c.p-1.internal","interfaces":[{"interface":"",)"
      R"("addresses":["fd20:1::/96"],"routes":[{"network":"::/0","gateway":"fe80::1","metric":2048}],)"
      R"("mtu":1460,"dhcp":true,"dhcpOptions":{"routeMetric":1024},)"
      R"("deviceSelector":{"hardwareAddr":"42:01:0a:01:00:04"}}],"nameservers":["169.254.169.254"]},)"
      R"("timeServers":["metadata.google.internal"],"externalAddresses":["203.0.113.7"]})");
}

// Catches: both families of DHCP if one is requested, the metric of IPv6, static addresses that are
// not listed as external.
TEST(Hetzner, Facts) {
  EXPECT_EQ(
      factsOf(
          kHetzner,
          {{"hostname", "n1"},
           {"instance-id", "4711"},
           {"zone", "fsn1-dc14"},
           {"public-ipv4", "203.0.113.9"},
           {"network",
            R"({version: 1, config: [{type: physical, name: eth0, mac_address: "96:00:00:00:00:02",
                   subnets: [{type: dhcp, ipv4: true},
                             {type: static, ipv6: true, address: "2001:db8:1::1/64", gateway: "fe80::1"}]},
                   {type: nameserver, address: [192.0.2.1]}]})"}}),
      R"({"metadata":{"hostname":"n1","region":"fsn1","zone":"fsn1-dc14","instanceId":"4711",)"
      R"("providerId":"hcloud://4711"},"network":{"hostname":"n1","interfaces":[{"interface":"",)"
      R"("addresses":["2001:db8:1::1/64"],"routes":[{"network":"::/0","gateway":"fe80::1","metric":1024}],)"
      R"("mtu":0,"dhcp":true,"dhcpOptions":{"routeMetric":1024},)"
      R"("deviceSelector":{"hardwareAddr":"96:00:00:00:00:02"}}]},)"
      R"("externalAddresses":["203.0.113.9","2001:db8:1::1"]})");
}

TEST(Keys, ExoscaleAndCloudstack) {
  GivenAnswers answers = {{"hostname", "n1"},
                          {"offering", "Standard.Tiny 1024mb"},
                          {"instance-id", "i-1"},
                          {"public-ipv4", "203.0.113.1"},
                          {"zone", "ch-gva-2"}};
  EXPECT_EQ(factsOf(kExoscale, answers),
            R"({"metadata":{"hostname":"n1","region":"ch-gva-2","zone":"ch-gva-2",)"
            R"("instanceType":"standard.tiny","instanceId":"i-1","providerId":"exoscale://i-1"},)"
            R"("network":{"hostname":"n1"},"externalAddresses":["203.0.113.1"]})");
  EXPECT_NE(factsOf(kCloudstack, answers).find(R"("providerId":"cloudstack://i-1")"),
            std::string::npos);
}

// Catches: addresses, gateways and an MTU that are ignored without a message.
TEST(Gcp, ValuesThatAreNotValid) {
  auto facts = factsOf(
      kGcp, {{"interfaces",
              R"([{"ipv6":["x","fd20:1::/96"],"gatewayIpv6":"y","mtu":"jumbo","mac":"z"}])"}});
  auto begin = facts.find(R"("addresses":)");
  ASSERT_NE(begin, std::string::npos) << facts;
  EXPECT_EQ(
      facts.substr(begin),
      R"("addresses":["fd20:1::/96"],"mtu":0,"dhcp":true,"dhcpOptions":{"routeMetric":1024}}],)"
      R"("nameservers":["169.254.169.254"]},"timeServers":["metadata.google.internal"],)"
      R"("problems":["eth0: \"z\" is not a valid hardware address; ignored",)"
      R"("eth0: \"jumbo\" is not a valid MTU (68 to 65536); ignored",)"
      R"("eth0: \"x\" is not a valid address; ignored",)"
      R"("eth0: \"y\" is not a valid gateway; ignored"]})");
}

TEST(Hetzner, ValuesThatAreNotValid) {
  auto facts = factsOf(
      kHetzner, {{"network",
                  R"({config: [{type: physical, name: eth0, subnets: [{type: static, address: x},
                     {type: static, address: "2001:db8:1::1/64", gateway: y}, {type: static}]}]})"}});
  auto begin = facts.find(R"("problems":)");
  ASSERT_NE(begin, std::string::npos) << facts;
  EXPECT_EQ(facts.substr(begin), R"("problems":["eth0: \"x\" is not a valid address; ignored",)"
                                 R"("eth0: \"y\" is not a valid gateway; ignored",)"
                                 R"("eth0: address is missing; ignored"]})");
}

}  // namespace
}  // namespace talos::platforms
