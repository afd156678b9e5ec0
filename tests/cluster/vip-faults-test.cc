// The shared address of three control-plane nodes in containers, under all kinds of faults
// (vip-faults.h): at no instant do two of them have it, no node announces the address without
// having it, and it is back as long as etcd has a quorum.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cluster/vip-faults.h"
#include "tests/cluster/vip-nodes.h"

namespace talos {
namespace {

constexpr double kTimeout = 120;  // s, until all three are as before

// Additional faults, which only containers allow.
std::vector<VipFault> faultsOf(VipNodes& nodes) {
  auto faults = vipFaults();
  faults.push_back({"etcd slow", [&](auto&, unsigned i) { return nodes.slow(i, "etcd"); }});
  faults.push_back({"etcd and vipd killed", [](auto& all, unsigned i) {
                      all.kill(i, "vipd");
                      all.kill(i, "etcd");
                      return [] {};
                    }});
  return faults;
}

class ContainerFaults : public VipFaultRun {
 public:
  explicit ContainerFaults(VipNodes& nodes) : VipFaultRun(nodes, faultsOf(nodes)), nodes(nodes) {}

 protected:
  int settled() override { return nodes.settled(kTimeout) ? nodes.watch.holder() : -1; }
  void check(const VipFault&) override {
    EXPECT_EQ(0u, nodes.watch.overlaps.load())
        << nodes.watch.firstOverlap() << " had it, for " << nodes.watch.overlapMs() << " ms\n"
        << nodes.said();
    EXPECT_EQ(0u, nodes.client->twice.load()) << "two answered one question\n" << nodes.said();
    for (auto& claim : nodes.client->takeClaims()) {
      EXPECT_TRUE(nodes.isRight(claim)) << "node " << nodes.ownerOf(claim.mac) + 1
                                        << " announced the address and had not got it\n"
                                        << nodes.said();
    }
  }
  std::string verdict() const override {
    return kj::str("two holders at ", nodes.watch.overlaps.load(), " of ", nodes.watch.looks.load(),
                   " looks, two answers to ", nodes.client->twice.load(), " of ",
                   nodes.client->asked.load(), " questions")
        .cStr();
  }

 private:
  VipNodes& nodes;
};

// Catches: two holders at one instant, an announcement by a node that has not got the address, a
// node that keeps it without etcd, and an address that does not come back.
TEST(VipFaults, OneOfThreeNodesHasTheAddressWhateverHappens) {
  VipNodes nodes;
  ContainerFaults(nodes).run();
}

// Makes the holder etcd's leader, or another node if it leads. Returns false if this does not
// succeed: etcd-supervisor keeps the leadership away from holders, and a node that forfeits it
// gives it to the first other member.
bool placeLeader(const VipNodes& nodes, unsigned holder, bool leads) {
  constexpr unsigned kAttempts = 6;
  for (unsigned attempt = 0; attempt < kAttempts; ++attempt) {
    int leader = nodes.leader();
    if (leader < 0) continue;
    if ((leader == int(holder)) == leads) return true;
    nodes.at(unsigned(leader), {"etcd", "forfeit-leadership"});
  }
  return false;
}

// The times of one kind of fault, in milliseconds.
struct OutageTimes {
  std::vector<int64_t> moved, silent;

  static std::string summary(std::vector<int64_t> times) {
    std::sort(times.begin(), times.end());
    if (times.empty()) return "null";
    return kj::str("{\"p50\":", times[times.size() / 2], ",\"longest\":", times.back(), "}").cStr();
  }
  void print(const VipFault& fault, bool leads) const {
    printf("{\"fault\":\"%s\",\"leads\":%s,\"runs\":%zu,\"moved\":%s,\"silent\":%s}\n", fault.name,
           leads ? "true" : "false", moved.size(), summary(moved).c_str(), summary(silent).c_str());
    fflush(stdout);
  }
};

// Strikes the holder until another node has the address and answers; fails the test if none gets
// it.
void measureOutage(VipNodes& nodes, const VipFault& fault, bool leads, int64_t bound,
                   OutageTimes& times) {
  int holder = -1;
  auto held = [&] { return nodes.settled(kTimeout) && (holder = nodes.watch.holder()) >= 0; };
  // A frozen leader of etcd that continues may delete the holder's key.
  ASSERT_TRUE(harness::eventually(held, kTimeout)) << nodes.said();
  if (!placeLeader(nodes, unsigned(holder), leads)) return;
  nodes.client->takeLongest();
  auto began = kj::systemPreciseMonotonicClock().now();
  auto heal = fault.strike(nodes, unsigned(holder));
  kj::Maybe<kj::TimePoint> taken;
  auto moved = [&] {
    taken = nodes.watch.anotherGotIt(unsigned(holder), began);
    return taken != nullptr;
  };
  EXPECT_TRUE(harness::eventually(moved, kTimeout)) << nodes.said();
  auto answered = nodes.client->answered.load();
  auto answers = [&] { return nodes.client->answered > answered; };
  EXPECT_TRUE(harness::eventually(answers, kTimeout)) << nodes.said();
  auto silent = nodes.client->takeLongest();
  heal();
  KJ_IF_MAYBE (at, taken) {
    auto away = *at - began;
    EXPECT_LE(away / kj::MILLISECONDS, bound * 1000) << fault.name << "\n" << nodes.said();
    times.moved.push_back(away / kj::MILLISECONDS);
    times.silent.push_back(silent);
  }
  EXPECT_EQ(0u, nodes.watch.overlaps.load()) << nodes.watch.firstOverlap() << " had it";
  EXPECT_EQ(0u, nodes.client->twice.load()) << "two answered one question";
}

// Catches: a waiting node that does not take the address of a holder that it cannot reach, or that
// stands still, with etcd's leader on the holder's node and elsewhere. The times are figures.
TEST(VipOutages, AnotherNodeTakesTheAddressOfAHolderThatIsCutOffOrFrozen) {
  auto text = getenv("VIP_OUTAGES");
  auto rounds = text == nullptr ? 1u : unsigned(atoi(text));
  auto limit = getenv("VIP_BOUND");
  auto bound = limit == nullptr ? int64_t(kTimeout) : int64_t(atoi(limit));
  VipNodes nodes;
  for (auto& fault : vipFaults()) {
    std::string name = fault.name;
    if (!name.starts_with("cut off") && name != "node frozen") continue;
    for (bool leads : {false, true}) {
      OutageTimes times;
      for (unsigned round = 0; round < rounds; ++round) {
        measureOutage(nodes, fault, leads, bound, times);
        if (HasFailure()) return;
      }
      times.print(fault, leads);
    }
  }
}

}  // namespace
}  // namespace talos
