#include "tests/cluster/vip-faults.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <thread>

namespace talos {
namespace {

using Way = VipSegment::Way;
using Whom = VipFault::Whom;

double setting(const char* variable, double otherwise) {
  auto text = getenv(variable);
  return text == nullptr ? otherwise : atof(text);
}

unsigned next(unsigned node) {
  return (node + 1) % VipSegment::kCount;
}

Heal kill(VipSegment& nodes, unsigned i, const char* program) {
  nodes.kill(i, program);
  return [] {};
}

}  // namespace

std::vector<VipFault> vipFaults() {
  return {
      {"vipd killed", [](auto& nodes, unsigned i) { return kill(nodes, i, "vipd"); }},
      {"vipd stopped", [](auto& nodes, unsigned i) { return nodes.stop(i, "vipd"); }},
      {"etcd killed", [](auto& nodes, unsigned i) { return kill(nodes, i, "etcd"); }},
      {"etcd stopped", [](auto& nodes, unsigned i) { return nodes.stop(i, "etcd"); }},
      {"etcd's leader killed", [](auto& nodes, unsigned i) { return kill(nodes, i, "etcd"); },
       Whom::kEtcdLeader},
      {"vipd stopped, another node's etcd killed",
       [](auto& nodes, unsigned i) {
         return both(nodes.stop(i, "vipd"), kill(nodes, next(i), "etcd"));
       }},
      {"two nodes' etcd stopped",
       [](auto& nodes, unsigned i) {
         return both(nodes.stop(i, "etcd"), nodes.stop(next(i), "etcd"));
       },
       Whom::kAny, false},
      {"node lost", [](auto& nodes, unsigned i) { return nodes.lose(i); }},
      {"node of etcd's leader lost", [](auto& nodes, unsigned i) { return nodes.lose(i); },
       Whom::kEtcdLeader},
      {"node frozen", [](auto& nodes, unsigned i) { return nodes.freeze(i); }, Whom::kAny, true,
       true},
      {"port down", [](auto& nodes, unsigned i) { return nodes.unplug(i); }},
      {"cut off", [](auto& nodes, unsigned i) { return nodes.cutOff(i, Way::kBoth); }},
      {"cut off, hears", [](auto& nodes, unsigned i) { return nodes.cutOff(i, Way::kFromNode); }},
      {"cut off, is heard", [](auto& nodes, unsigned i) { return nodes.cutOff(i, Way::kToNode); }},
  };
}

VipFaultRun::VipFaultRun(VipSegment& nodes, std::vector<VipFault> faults)
    : nodes(nodes),
      faults(std::move(faults)),
      seed(unsigned(setting("VIP_SEED", double(std::random_device{}() % 1'000'000)))),
      random(seed),
      bound(setting("VIP_BOUND", 60)) {}

void VipFaultRun::run() {
  ASSERT_GE(settled(), 0) << nodes.said();
  std::vector<const VipFault*> order;
  for (auto& fault : faults) order.push_back(&fault);
  std::shuffle(order.begin(), order.end(), random);
  auto count = unsigned(setting("VIP_FAULTS", double(faults.size())));
  for (unsigned n = 0; n < count && !testing::Test::HasFailure(); ++n) {
    strike(n < order.size() ? *order[n] : faults[below(unsigned(faults.size()))]);
  }
  report();
}

// The holder is worth most.
unsigned VipFaultRun::victimOf(const VipFault& fault, int holder) {
  if (fault.whom == Whom::kEtcdLeader) {
    int leader = nodes.leader();
    if (leader >= 0) return unsigned(leader);
  }
  return below(3) > 0 ? unsigned(holder) : below(VipSegment::kCount);
}

// Too short to be noticed, about as long as a lease, until the end.
std::chrono::milliseconds VipFaultRun::duration() {
  switch (below(3)) {
    case 0:
      return std::chrono::milliseconds(20 + below(400));
    case 1:
      return std::chrono::milliseconds(1000 + below(2500));
    default:
      return std::chrono::milliseconds(6000 + below(4000));
  }
}

void VipFaultRun::strike(const VipFault& fault) {
  int holder = settled();
  ASSERT_GE(holder, 0) << "the address is not back\n" << nodes.said();
  auto victim = victimOf(fault, holder);
  auto lasts = duration();
  bool hit = holder == int(victim);
  auto what =
      kj::str("fault ", done + 1, " (seed ", seed, "): ", fault.name, " at ",
              nodes.nodeName(victim), hit ? ", the holder," : "", " for ", lasts.count(), " ms");
  SCOPED_TRACE(what.cStr());
  before();
  nodes.client->takeLongest();
  auto heal = fault.strike(nodes, victim);
  std::this_thread::sleep_for(lasts);
  heal();
  EXPECT_GE(settled(), 0) << "the address is not back\n" << nodes.said();
  ++done;
  auto gap = nodes.client->takeLongest();
  if (getenv("VIP_VERBOSE") != nullptr) {
    fprintf(stderr, "%s: no answer for %d ms\n", what.cStr(), int(gap));
  }
  if (fault.quorum) {
    away[kj::str(fault.name, hit ? ", of the holder" : "").cStr()].push_back(gap);
    EXPECT_LE(gap, int64_t(bound * 1000)) << "ms\n" << nodes.said();
  }
  check(fault);
}

void VipFaultRun::report() const {
  fprintf(stderr, "%u faults, seed %u: %s\n", done, seed, verdict().c_str());
  for (auto [name, times] : away) {
    std::sort(times.begin(), times.end());
    fprintf(stderr, "  %-55s %4zu times, no answer for %5d ms (p50), %5d (longest)\n", name.c_str(),
            times.size(), int(times[times.size() / 2]), int(times.back()));
  }
}

}  // namespace talos
