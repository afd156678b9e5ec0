// Checks that the witnesses of "never two" in the other tests (holder-watch.h, arp-prober.h) notice
// two hosts with the address. Needs root.
#include <gtest/gtest.h>

#include <functional>

#include "common/netlink/test-netlink.h"
#include "common/testing/test-namespace.h"
#include "tests/vip/arp-prober.h"
#include "tests/vip/holder-watch.h"

namespace talos {
namespace {

constexpr auto kTimeout = 20 * kj::SECONDS;

// A bridge with the address 10.77.0.254, and two hosts at it.
struct Segment {
  kj::Own<netlink::Kernel> kernel = netlink::openKernel();
  struct Host {
    kj::AutoCloseFd place = newPlace();
    kj::Own<netlink::Kernel> kernel = inside(place, [] { return netlink::openKernel(); });
  };
  Host hosts[2];
  Ip vip = Ip::require("10.77.0.50");

  Segment() {
    auto bridge = netlink::addLink(*kernel, "br0", netlink::Bridge{});
    netlink::setUp(*kernel, bridge);
    netlink::addAddress(*kernel, bridge, KJ_ASSERT_NONNULL(Prefix::parse("10.77.0.254/24")));
    for (int i = 0; i < 2; ++i) plugIn(*kernel, bridge, kj::str("h", i), hosts[i].place);
  }
  unsigned eth0(unsigned host) { return netlink::indexOf(*hosts[host].kernel, "eth0"); }
  void give(unsigned host) {
    netlink::addAddress(*hosts[host].kernel, eth0(host), Prefix::host(vip));
  }
  void take(unsigned host) {
    netlink::change(*hosts[host].kernel,
                    netlink::DeleteAddress{{.link = eth0(host), .prefix = Prefix::host(vip)}});
  }
  kj::Own<ArpProber> probe() {
    auto br0 = KJ_ASSERT_NONNULL(netlink::findLink(*kernel, "br0"));
    return kj::heap<ArpProber>(br0, Ip::require("10.77.0.254"), vip);
  }
};

void until(const char* what, const std::function<bool()>& condition) {
  auto& clock = kj::systemPreciseMonotonicClock();
  auto end = clock.now() + kTimeout;
  while (!condition()) {
    KJ_ASSERT(clock.now() < end, "did not happen within 20 s", what);
    usleep(1000);
  }
}

// Catches: a witness that does not see a second host, a witness that sees two hosts where the
// address moved, and a witness that does not notice that no host has it.
TEST(Witnesses, SeeTwoHostsAndNotOneAfterTheOther) {
  inNamespace([] {
    Segment segment;
    HolderWatch watch(segment.vip, 2);
    for (unsigned i = 0; i < 2; ++i) watch.put(i, segment.hosts[i].place);
    auto client = segment.probe();
    segment.give(0);
    until("the first host is seen", [&] { return watch.holder() == 0 && client->answered > 0; });
    auto before = kj::systemPreciseMonotonicClock().now();
    segment.take(0);
    until("nobody is seen", [&] { return watch.holder() == -1; });
    client->takeLongest();
    until("the client has no answer", [&] { return client->takeLongest() > 100; });
    segment.give(1);
    auto answered = client->answered.load();
    until("the second host is seen",
          [&] { return watch.holder() == 1 && client->answered > answered + 2; });
    EXPECT_EQ(0u, watch.overlaps.load());
    EXPECT_EQ(0u, client->twice.load());
    auto now = kj::systemPreciseMonotonicClock().now();
    EXPECT_TRUE(watch.had(0, before, now));
    EXPECT_TRUE(watch.had(1, now, now));
    EXPECT_FALSE(watch.had(0, now, now));

    segment.give(0);
    until("two hosts are seen", [&] { return watch.overlaps > 0 && client->twice > 0; });
    EXPECT_GT(watch.overlapMs(), 0);
    watch.lose(0);
    until("the lost one is not seen", [&] { return watch.holders == 2; });
  });
}

}  // namespace
}  // namespace talos
