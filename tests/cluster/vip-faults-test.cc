// The shared address of three control-plane nodes in containers, under all kinds of faults
// (vip-faults.h): at no instant do two of them have it, no node announces the address without
// having it, and it is back as long as etcd has a quorum.
#include <gtest/gtest.h>

#include "tests/cluster/vip-faults.h"
#include "tests/cluster/vip-nodes.h"

namespace talos {
namespace {

constexpr double kTimeout = 120;                  // s, until all three are as before
constexpr auto kAround = 100 * kj::MILLISECONDS;  // around an announcement: it arrives a little
                                                  // later

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
      int who = nodes.ownerOf(claim.mac);
      EXPECT_TRUE(who >= 0 &&
                  nodes.watch.had(unsigned(who), claim.at - kAround, claim.at + kAround))
          << "node " << who + 1 << " announced the address and had not got it\n"
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

}  // namespace
}  // namespace talos
