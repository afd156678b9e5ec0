// Tables of /proc/net as a kernel 6.12 prints them.
#include "tests/published/kernel-network.h"

#include <gtest/gtest.h>

namespace talos::published {
namespace {

constexpr const char* kRoutes =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "eth0\t00000000\t0102000A\t0003\t0\t0\t1024\t00000000\t0\t0\t0\n"
    "eth0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
constexpr const char* kFibTrie =
    "Main:\n"
    "  +-- 0.0.0.0/0 3 0 5\n"
    "     |-- 0.0.0.0\n"
    "        /0 universe UNICAST\n"
    "     |-- 10.0.2.0\n"
    "        /24 link UNICAST\n"
    "        |-- 10.0.2.15\n"
    "           /32 host LOCAL\n"
    "        |-- 10.0.2.255\n"
    "           /32 link BROADCAST\n";
constexpr const char* kAddresses6 =
    "fd000005000000000000000000000030 02 40 00 80     eth0\n"
    "00000000000000000000000000000001 01 80 10 80       lo\n";
constexpr const char* kRoutes6 =
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "fd000005000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n";
constexpr const char* kSockets =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    "   0: 0100007F:1D15 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
    "   1: 0F02000A:C350 0202000A:8A3C 01 00000000:00000000 00:00000000 00000000     0\n";

}  // namespace

// Catches: an address of another link or with another prefix length, a broadcast address.
TEST(KernelNetwork, HasTheAddressesOfALink) {
  EXPECT_TRUE(hasAddress4(kFibTrie, kRoutes, "eth0", "10.0.2.15/24"));
  EXPECT_TRUE(hasAddress4(kFibTrie, kRoutes, "lo", "10.0.2.15/32"));
  EXPECT_FALSE(hasAddress4(kFibTrie, kRoutes, "eth1", "10.0.2.15/24"));
  EXPECT_FALSE(hasAddress4(kFibTrie, kRoutes, "eth0", "10.0.2.15/16"));
  EXPECT_FALSE(isLocal4(kFibTrie, "10.0.2.255"));
  EXPECT_FALSE(isLocal4(kFibTrie, "10.0.2.0"));
  EXPECT_TRUE(hasAddress6(kAddresses6, "eth0", "fd00:5::30/64"));
  EXPECT_FALSE(hasAddress6(kAddresses6, "eth0", "fd00:5::30/128"));
  EXPECT_FALSE(hasAddress6(kAddresses6, "eth0", "::1/128"));
}

// Catches: bytes in the wrong order, a metric in the wrong base, a link that is not compared.
TEST(KernelNetwork, HasTheRoutes) {
  EXPECT_TRUE(hasRoute4(kRoutes, {"default", "10.0.2.1", "eth0", ""}));
  EXPECT_TRUE(hasRoute4(kRoutes, {"0.0.0.0/0", "10.0.2.1", "eth0", "1024"}));
  EXPECT_FALSE(hasRoute4(kRoutes, {"default", "10.0.2.1", "eth0", "10"}));
  EXPECT_FALSE(hasRoute4(kRoutes, {"default", "10.0.2.1", "eth1", ""}));
  EXPECT_FALSE(hasRoute4(kRoutes, {"10.0.2.0/24", "10.0.2.1", "eth0", ""}));
  EXPECT_TRUE(hasRoute6(kRoutes6, {"default", "fd00:5::1", "eth0", "1024"}));
  EXPECT_FALSE(hasRoute6(kRoutes6, {"default", "fd00:5::2", "eth0", ""}));
  EXPECT_EQ(shownRoutes(kRoutes),
            "routes: 0.0.0.0/0 via 10.0.2.1 dev eth0 metric 1024; "
            "10.0.2.0/24 via 0.0.0.0 dev eth0 metric 0");
}

// Catches: a connection that counts as a listener.
TEST(KernelNetwork, HasTheSockets) {
  EXPECT_TRUE(hasSocket(kSockets, Protocol::kTcp, "127.0.0.1", 7445));
  EXPECT_FALSE(hasSocket(kSockets, Protocol::kTcp, "0.0.0.0", 7445));
  EXPECT_FALSE(hasSocket(kSockets, Protocol::kTcp, "10.0.2.15", 50000));
  EXPECT_TRUE(hasSocket(kSockets, Protocol::kUdp, "10.0.2.15", 50000));
}

}  // namespace talos::published
