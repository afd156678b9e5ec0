#include "networkd/dhcp/dhcp-lease.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/testing/test-ip.h"
#include "networkd/dhcp/dhcp-client4.h"

namespace talos::networkd::dhcp {
namespace {

using State = Client4::State;
using Type = Message4::Type;

const kj::byte kMac[] = {2, 0, 0, 0, 0, 1};

Message4 ack() {
  Message4 m;
  m.reply = true;
  m.type = Type::kAck;
  m.hardwareAddress = copyOf(kMac);
  m.server = ip("10.0.0.1");
  m.yours = ip("10.0.0.9");
  return m;
}
kj::String routesOf(const Message4& m) {
  auto lease = KJ_ASSERT_NONNULL(leaseOf(m, kj::origin<kj::TimePoint>()));
  return kj::strArray(
      KJ_MAP(r, lease.routes) { return kj::str(r.destination, ">", r.gateway); }, " ");
}

TEST(Lease4, WhatTheServerLeavesOut) {
  struct Row {
    kj::StringPtr address, prefix;
  } rows[] = {{"10.0.0.9", "10.0.0.9/8"},
              {"172.16.0.9", "172.16.0.9/16"},
              {"192.168.0.9", "192.168.0.9/24"}};
  for (auto& row : rows) {
    auto m = ack();
    m.yours = ip(row.address);
    auto lease = KJ_ASSERT_NONNULL(leaseOf(m, kj::origin<kj::TimePoint>()));
    EXPECT_EQ(kj::str(lease.address), row.prefix);
    EXPECT_EQ(lease.seconds, 1800u);
  }
}

TEST(Lease4, TimesThatAreNotInOrderAreReplaced) {
  struct Row {
    kj::Maybe<uint32_t> t1, t2;
    uint64_t renew, rebind;
  } rows[] = {{nullptr, nullptr, 50, 87}, {30u, 60u, 30, 60},   {60u, 30u, 17, 30},
              {30u, 100u, 30, 87},        {200u, 300u, 50, 87}, {90u, nullptr, 50, 87},
              {nullptr, 20u, 11, 20},     {0u, 0u, 50, 87},     {0u, 60u, 50, 60}};
  for (auto& row : rows) {
    auto m = ack();
    m.lease = 100u;
    m.renewal = row.t1;
    m.rebinding = row.t2;
    auto lease = KJ_ASSERT_NONNULL(leaseOf(m, kj::origin<kj::TimePoint>()));
    EXPECT_EQ((KJ_ASSERT_NONNULL(lease.renew) - lease.obtained) / kj::SECONDS, row.renew);
    EXPECT_EQ((KJ_ASSERT_NONNULL(lease.rebind) - lease.obtained) / kj::SECONDS, row.rebind);
  }
}

// Catches: a renewal that follows another at once, because half seconds are lost.
TEST(Lease4, TimesOfALeaseOfASecond) {
  auto m = ack();
  m.lease = 1u;
  auto lease = KJ_ASSERT_NONNULL(leaseOf(m, kj::origin<kj::TimePoint>()));
  EXPECT_TRUE(KJ_ASSERT_NONNULL(lease.renew) - lease.obtained == 500 * kj::MILLISECONDS);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(lease.rebind) - lease.obtained == 875 * kj::MILLISECONDS);
  m.lease = kInfinite - 1;
  auto longest = KJ_ASSERT_NONNULL(leaseOf(m, kj::origin<kj::TimePoint>()));
  EXPECT_EQ((KJ_ASSERT_NONNULL(longest.rebind) - longest.obtained) / kj::SECONDS, 3758096382);
}

// A renewal is sent to the server, and 0.0.0.0 would address this machine.
TEST(Lease4, AServerThatCannotBeAsked) {
  for (auto text : {"0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"}) {
    auto m = ack();
    m.server = ip(text);
    EXPECT_TRUE(leaseOf(m, kj::origin<kj::TimePoint>()) == nullptr) << text;
  }
}

// Catches: two default routes (RFC 3442: option 3 is ignored beside 121), and a gateway that the
// kernel refuses because it has no route to it.
TEST(Lease4, Routes) {
  auto m = ack();
  m.prefixLength = 24u;
  m.routers.add(ip("10.0.0.1"));
  m.routers.add(ip("10.0.0.2"));
  EXPECT_EQ(routesOf(m), "0.0.0.0/0>10.0.0.1");
  m.classlessRoutes = kj::Vector<Route4>();
  EXPECT_EQ(routesOf(m), "");
  auto& list = KJ_ASSERT_NONNULL(m.classlessRoutes);
  auto route = [](kj::StringPtr to, kj::StringPtr by) {
    return Route4{KJ_ASSERT_NONNULL(Prefix::parse(to)), ip(by)};
  };
  list.add(route("192.168.0.0/16", "10.0.0.254"));
  list.add(route("0.0.0.0/0", "10.9.9.1"));
  list.add(route("1.0.0.0/8", "10.0.0.9"));   // our own address
  list.add(route("2.0.0.0/8", "255.1.1.1"));  // not a host's address
  EXPECT_EQ(routesOf(m), "192.168.0.0/16>10.0.0.254 10.9.9.1/32>0.0.0.0 0.0.0.0/0>10.9.9.1");
  list.add(route("10.9.9.0/24", "0.0.0.0"));
  EXPECT_EQ(routesOf(m), "10.9.9.0/24>0.0.0.0 192.168.0.0/16>10.0.0.254 0.0.0.0/0>10.9.9.1");
  // Clouds give such an address: it is alone in its prefix.
  auto single = ack();
  single.prefixLength = 32u;
  single.routers.add(ip("10.0.0.1"));
  EXPECT_EQ(routesOf(single), "10.0.0.1/32>0.0.0.0 0.0.0.0/0>10.0.0.1");
}

TEST(Lease4, AFileThatWasTouchedIsNoLease) {
  auto now = kj::origin<kj::TimePoint>() + 50 * kj::SECONDS;
  auto m = ack();
  m.lease = 100u;
  m.hostname = kj::str("node");
  auto file = encode(KJ_ASSERT_NONNULL(leaseOf(m, now)));
  auto back = KJ_ASSERT_NONNULL(decodeLease4(file, now));
  EXPECT_TRUE(back.obtained == now);
  EXPECT_EQ(kj::str(back.address, back.hostname), "10.0.0.9/8node");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(back.expires) == now + 100 * kj::SECONDS);
  EXPECT_TRUE(decodeLease4(file, now - 1 * kj::NANOSECONDS) == nullptr) << "of another boot";
  for (size_t i = 0; i < file.size(); ++i) {
    EXPECT_TRUE(decodeLease4(file.slice(0, i), now) == nullptr) << i;
    file[i] ^= 1;
    EXPECT_TRUE(decodeLease4(file, now) == nullptr) << i;
    file[i] ^= 1;
  }
}

}  // namespace
}  // namespace talos::networkd::dhcp
