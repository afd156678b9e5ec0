// Azure and OpenNebula.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace talos::platforms
