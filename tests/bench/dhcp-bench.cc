// From a cable that is plugged in to the address in the kernel, by DHCP: networkd as a process,
// machined's controller, dnsmasq at the other end of a veth pair, which answers at once
// (--no-ping).
//
//   dhcp-bench [RUNS]   prints {"runs":N,"p50ms":…,"p99ms":…,"withoutProbesP50ms":…}
//
// 300 ms of this time are the wait for another host that has the address already (RFC 5227).
// NETWORKD and CONFINE name the programs. Needs root.
//
// link: machined-config-network GTest::gtest
#include <stdio.h>

#include <algorithm>

#include "tests/bench/arguments.h"
#include "tests/network/cable.h"

namespace talos {
namespace {

constexpr double kProbes = 300;  // ms

double onePlug(Cable& cable) {
  auto& node = cable.node;
  auto& there = cable.server.there();
  auto peer = netlink::indexOf(there, "peer");
  // Nothing is known of before.
  cable.dhcp = false;
  cable.configChanged();
  node.until("the end of the lease",
             [&] { return cable.lease() == nullptr && !node.has("10.7.0.100/24"); });
  netlink::setUp(there, peer, false);
  cable.dhcp = true;
  cable.configChanged();
  node.until("no carrier", [&] { return cable.state() == "no carrier"; });

  auto& clock = kj::systemPreciseMonotonicClock();
  auto begin = clock.now();
  netlink::setUp(there, peer);
  node.until("the address", [&] { return node.has("10.7.0.100/24"); });
  return double((clock.now() - begin) / kj::MICROSECONDS) / 1000;
}

void measure(unsigned runs) {
  Cable cable;
  cable.dnsmasq("10.7.0.100,10.7.0.100,255.255.255.0,2m");
  cable.node.start();
  cable.node.until("an address", [&] { return cable.has("10.7.0.100/24"); });
  kj::Vector<double> times;
  for (unsigned i = 0; i < runs; ++i) times.add(onePlug(cable));
  std::sort(times.begin(), times.end());
  auto at = [&](double share) { return times[static_cast<size_t>(share * (runs - 1))]; };
  printf("{\"runs\":%u,\"p50ms\":%.1f,\"p99ms\":%.1f,\"withoutProbesP50ms\":%.1f}\n", runs, at(0.5),
         at(0.99), at(0.5) - kProbes);
}

}  // namespace
}  // namespace talos

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "dhcp-bench", "[RUNS]", [](auto& arguments) {
    arguments.expect(0, 1);
    talos::measure(arguments.numberOr(20, 1, "RUNS", 1, 10'000));
  });
}
