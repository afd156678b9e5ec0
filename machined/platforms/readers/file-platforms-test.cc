// Platforms whose documents are not JSON alone: Azure, VMware, OpenNebula.
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/xml/xml.h"
#include "machined/platforms/readers/file-platforms.h"
#include "machined/platforms/readers/test-platform.h"

namespace talos::platforms {
namespace {

// Catches: more than the resource group in lower case, brackets, a zone without its region.
TEST(Azure, Facts) {
  EXPECT_EQ(
      factsOf(
          kAzure,
          {{"compute",
            R"({"location":"WestEurope","zone":"2","vmSize":"Standard_T1","evictionPolicy":"",
                "osProfile":{"computerName":"n1"},"platformFaultDomain":"0",
                "resourceId":"/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/N1"})"},
           {"interfaces",
            R"([{"ipv4":{"ipAddress":[{"privateIpAddress":"10.0.0.4","publicIpAddress":"203.0.113.8"}]},
                 "ipv6":{"ipAddress":[{"privateIpAddress":"fd00::4"}]},"macAddress":"000D3A000001"}])"},
           {"loadbalancer",
            R"({"loadbalancer":{"publicIpAddresses":[{"frontendIpAddress":"[2001:db8::1]"}]}})"}}),
      R"({"metadata":{"hostname":"n1","region":"westeurope","zone":"westeurope-2",)"
      R"("instanceType":"Standard_T1",)"
      R"("instanceId":"/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/N1",)"
      R"("providerId":"azure:///subscriptions/S/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/N1"},)"
      R"("network":{"hostname":"n1","interfaces":[{"interface":"",)"
      R"("routes":[{"network":"::/0","gateway":"fe80::1234:5678:9abc","metric":4096}],"mtu":0,)"
      R"("dhcp":true,"dhcpOptions":{"routeMetric":1024,"ipv6":true},)"
      R"("deviceSelector":{"hardwareAddr":"00:0d:3a:00:00:01"}}]},)"
      R"("externalAddresses":["203.0.113.8","2001:db8::1"]})");
}

std::string textIn(kj::ArrayPtr<const char> bytes) {
  return {bytes.begin(), bytes.size()};
}
// The text, or the error.
template <typename Read>
std::string orError(Read read) {
  std::string result;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { result = textIn(read()); })) {
    return messageOf(*e).cStr();
  }
  return result;
}

// Catches: prefixes of real files, an element of another name or within the requested one.
TEST(Azure, CustomData) {
  auto customData = [](kj::StringPtr document) {
    return orError([&] { return azureCustomData(document.asArray()); });
  };
  EXPECT_EQ(customData(R"(<?xml version="1.0" encoding="utf-8"?>
                           <ns0:Environment xmlns:ns0="http://schemas.dmtf.org/ovf/environment/1"
                           xmlns:ns1="http://schemas.microsoft.com/windowsazure"><ns1:ProvisioningSection>
                           <ns1:LinuxProvisioningConfigurationSet><ns1:UserPassword>x</ns1:UserPassword>
                           <ns1:CustomData>dmVy<a>no</a>c2lvbjo=</ns1:CustomData>
                           </ns1:LinuxProvisioningConfigurationSet>
                           </ns1:ProvisioningSection></ns0:Environment>)"),
            "dmVyc2lvbjo=");
  EXPECT_EQ(customData("<Environment/>"), "");
  EXPECT_EQ(customData("<Environment><CustomData/></Environment>"), "");
}

// Catches: an incomplete or empty document taken for one without the element; entities, which can
// make a small document large or name another file; a document of one repeated element.
TEST(Xml, Refusals) {
  auto text = [](std::string document) {
    return orError(
        [&] { return textOf("a", "x", kj::arrayPtr(document.data(), document.size())); });
  };
  EXPECT_EQ(text("<b>"), "x:1:4: is not valid XML: no element found");
  EXPECT_EQ(text(""), "x:1:1: is not valid XML: no element found");
  EXPECT_EQ(text("<a>\n</b>"), "x:2:3: is not valid XML: mismatched tag");
  EXPECT_EQ(text("<a>&amp;&#65;</a>"), "&A");
  EXPECT_EQ(text("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>"),
            "x:1:13: has a document type declaration, which is not read");
  std::string many = "<b>";
  for (size_t i = 0; i < kMostElements; ++i) many += "<a/>";
  EXPECT_EQ(text(many + "</b>"), "");
  EXPECT_EQ(text(many + "<a/></b>"), "x:1:4008: has too many elements of one name");
}

// Catches: an identifier that adds elements to the report; a missing identifier.
TEST(Azure, ReadyReport) {
  auto report = [](kj::StringPtr instance) {
    return orError([&] {
      return azureReadyReport(kj::str(
          "<GoalState><Incarnation>1</Incarnation><Container><ContainerId>c-1</ContainerId>"
          "<RoleInstanceList><RoleInstance><InstanceId>",
          instance, "</InstanceId></RoleInstance></RoleInstanceList></Container></GoalState>"));
    });
  };
  EXPECT_EQ(
      report("r-1"),
      "<?xml version=\"1.0\" encoding=\"utf-8\"?><Health><GoalStateIncarnation>1"
      "</GoalStateIncarnation><Container><ContainerId>c-1</ContainerId><RoleInstanceList><Role>"
      "<InstanceId>r-1</InstanceId><Health><State>Ready</State></Health></Role>"
      "</RoleInstanceList></Container></Health>");
  EXPECT_NE(report("_a (1)&lt;b/&gt;&amp;").find("<InstanceId>_a (1)&lt;b/&gt;&amp;</InstanceId>"),
            std::string::npos);
  for (auto& wrong :
       {kj::str("&#9;"), kj::str(), kj::str(kj::repeat('a', 129)), kj::str("a&#10;b")}) {
    EXPECT_EQ(report(wrong),
              "goal state: InstanceId is not a text of 1 to 128 printable characters");
  }
}

// Catches: the network of the metadata ignored; a link selected by the name that it is to get.
TEST(Vmware, Metadata) {
  EXPECT_EQ(factsOf(kVmware, {}), R"({"metadata":{},"network":{}})");
  EXPECT_EQ(
      factsOf(kVmware,
              {{"metadata",
                R"({instance-id: vm-1, local-hostname: n1, network: {version: 2, ethernets: {id0:
                   {match: {macaddress: "00:50:56:00:00:0A"}, set-name: eth0, addresses: [192.0.2.20/24],
                    gateway4: 192.0.2.1}}}})"}}),
      R"({"metadata":{"hostname":"n1","instanceId":"vm-1"},"network":{"hostname":"n1",)"
      R"("interfaces":[{"interface":"","addresses":["192.0.2.20/24"],)"
      R"("routes":[{"network":"0.0.0.0/0","gateway":"192.0.2.1","metric":1024}],"mtu":0,)"
      R"("deviceSelector":{"hardwareAddr":"00:50:56:00:00:0a"}}]}})");
}

// Catches: a property of another name, the prefix of an attribute taken for its name.
TEST(Vmware, OvfProperties) {
  auto environment =
      R"(<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1"
          xmlns:oe="http://schemas.dmtf.org/ovf/environment/1"><PropertySection>
          <Property oe:key="other" oe:value="x"/><Property oe:key="talos.config" oe:value="dmVyc2lvbjo="/>
          </PropertySection></Environment>)"_kj;
  EXPECT_EQ(textIn(ovfProperty("talos.config", kOvfFile, environment.asArray())), "dmVyc2lvbjo=");
  EXPECT_EQ(textIn(ovfProperty("userdata", kOvfFile, environment.asArray())), "");
  EXPECT_EQ(orError([] { return ovfProperty("userdata", "guestinfo.ovfenv", "<E"_kj.asArray()); }),
            "guestinfo.ovfenv:1:1: is not valid XML: unclosed token");
}

TEST(Opennebula, Context) {
  EXPECT_EQ(factsOf(kOpennebula,
                    {{"context",
                      "NETWORK=\"YES\"\nETH0_MAC='02:00:00:00:00:01'\nETH0_IP=\"192.0.2.7\"\n"
                      "ETH0_MASK=\"255.255.255.0\"\nETH0_GATEWAY=\"192.0.2.1\"\n"
                      "ETH0_DNS=\"192.0.2.53 192.0.2.54\"\nVMID=\"14\"\nNAME=\"n1\"\n"}}),
            R"({"metadata":{"hostname":"n1","instanceId":"14"},"network":{"hostname":"n1",)"
            R"("interfaces":[{"interface":"","addresses":["192.0.2.7/24"],)"
            R"("routes":[{"network":"0.0.0.0/0","gateway":"192.0.2.1","metric":1024}],"mtu":0,)"
            R"("deviceSelector":{"hardwareAddr":"02:00:00:00:00:01"}}],)"
            R"("nameservers":["192.0.2.53","192.0.2.54"]}})");
}

// Catches: addresses of IPv6 and static routes that are ignored; a value with line breaks whose
// lines are taken for variables; values that are not valid or not applied, without a message.
TEST(Opennebula, Network) {
  auto card = [](kj::StringPtr more) {
    auto context = kj::str("START_SCRIPT='#!/bin/sh\nETH0_MTU=9000\n'\nNETWORK='YES'\n",
                           "ETH0_MAC='02:00:00:00:00:01'\n", more);
    auto facts = factsOf(kOpennebula, {{"context", context}});
    constexpr std::string_view kBefore = R"("interface":"",)";
    return facts.substr(facts.find(kBefore) + kBefore.size());
  };
  auto with = [&](std::string before, std::string problems = "") {
    if (problems.size() > 0) problems = R"(,"problems":[)" + problems + "]";
    return before + R"("deviceSelector":{"hardwareAddr":"02:00:00:00:00:01"}}]})" + problems + "}";
  };
  EXPECT_EQ(card("ETH0_IP6='2001:db8::7'\nETH0_IP6_PREFIX_LENGTH='56'\nETH0_IP6_ULA='fd00::7'\n"
                 "ETH0_IP6_GATEWAY='fe80::1'\nETH0_ROUTES='10.0.0.0/8 via 192.0.2.2, "
                 "2001:db8:1::/48 via fe80::2'\n"),
            with(R"("addresses":["2001:db8::7/56","fd00::7/64"],)"
                 R"("routes":[{"network":"::/0","gateway":"fe80::1","metric":2048},)"
                 R"({"network":"10.0.0.0/8","gateway":"192.0.2.2","metric":1024},)"
                 R"({"network":"2001:db8:1::/48","gateway":"fe80::2","metric":2048}],"mtu":0,)"));
  EXPECT_EQ(card("ETH0_IPV6='2001:db8::7'\nETH0_GATEWAY6='fe80::1'\n"),
            with(R"("addresses":["2001:db8::7/64"],)"
                 R"("routes":[{"network":"::/0","gateway":"fe80::1","metric":2048}],"mtu":0,)"));
  EXPECT_EQ(card("ETH0_METHOD='skip'\nETH0_IP='192.0.2.7'\nETH0_IP6='2001:db8::7'\n"),
            with(R"("mtu":0,)"));
  EXPECT_EQ(card("ETH0_IP6_METHOD='dhcp'\nETH0_IP6='2001:db8::7'\n"),
            with(R"("mtu":0,"dhcp":true,)"
                 R"("dhcpOptions":{"routeMetric":1024,"ipv4":false,"ipv6":true},)"));
  EXPECT_EQ(card("ETH0_MTU='x'\nETH0_IP='192.0.2'\nETH0_GATEWAY='y'\nETH0_IP6='z'\n"
                 "ETH0_ROUTES='10.0.0.0/8 dev eth0'\nETH0_SEARCH_DOMAIN='lab'\nETH0_METRIC='5'\n"),
            with(R"("mtu":0,)", R"("eth0: \"x\" is not a valid MTU (68 to 65536); ignored",)"
                                R"("eth0: \"192.0.2\" is not a valid address; ignored",)"
                                R"("eth0: \"y\" is not a valid gateway; ignored",)"
                                R"("eth0: \"z\" is not a valid address; ignored",)"
                                R"("eth0: \"10.0.0.0/8 dev eth0\" is not a valid route )"
                                R"((<network>/<length> via <gateway>); ignored",)"
                                R"("eth0: ETH0_SEARCH_DOMAIN is not supported; ignored",)"
                                R"("eth0: ETH0_METRIC is not supported; ignored")"));
  EXPECT_EQ(
      card("ETH0_IP6_METHOD='disable'\n"),
      with(R"("mtu":0,)", R"("eth0: ETH0_IP6_METHOD \"disable\" is not supported; ignored")"));
  // The second quote is missing.
  EXPECT_EQ(card("ETH0_DNS='192.0.2.53\nETH0_IP=192.0.2.7\n"),
            with(R"("addresses":["192.0.2.7/24"],"mtu":0,)",
                 R"("DNS servers: \"'192.0.2.53\" is not a valid address; ignored")"));
}

}  // namespace
}  // namespace talos::platforms
