// Control-plane nodes that are reset, in containers: the effect on etcd and on the shared address
// that the node has, and the resets that are refused.
#include <gtest/gtest.h>

#include <regex>

#include "tests/cluster/etcd-nodes.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;

constexpr double kTimeout = EtcdNodes::kTimeout;

struct EtcdLeave : public testing::Test {
  ~EtcdLeave() noexcept override {}
  // With a worker, which gets its certificate at the shared address: after the bootstrap.
  EtcdNodes nodes{"leave", 3, {"--use-vip", "--bootstrap=true", "--workers", "1"}};

  std::string members(const EtcdNode& node) { return nodes.members(node); }
  size_t voters(const EtcdNode& node) { return nodes.voters(node); }
  Result at(const EtcdNode& node, std::vector<std::string> arguments) {
    return nodes.at(node, std::move(arguments));
  }
  std::string addressOf(const EtcdNode& node) {
    auto shown = at(node, {"--timeout", "20s", "get", "vipstatus"});
    return shown.out + shown.err;
  }
  // Returns the only node of these that has the shared address; otherwise nullptr.
  const EtcdNode* holder(const std::vector<EtcdNode>& nodes) {
    const EtcdNode* found = nullptr;
    for (auto& node : nodes) {
      if (!contains(addressOf(node), " holder ")) continue;
      if (found != nullptr) return nullptr;
      found = &node;
    }
    return found;
  }
};

}  // namespace

// Catches: a reset that leaves an unreachable voter in etcd, a reset that keeps the shared address,
// a reset that is carried out although the others would have no quorum, or a refused reset that has
// already begun.
TEST_F(EtcdLeave, AResetLeavesFirstOrIsRefused) {
  for (auto& node : nodes.all()) {
    ASSERT_TRUE(eventually([&] { return voters(node) == 3; }, kTimeout)) << members(node);
  }
  const EtcdNode* first = nullptr;
  ASSERT_TRUE(eventually([&] { return (first = holder(nodes.all())) != nullptr; }, kTimeout));
  std::vector<EtcdNode> others;
  for (auto& node : nodes.all()) {
    if (&node != first) others.push_back(node);
  }

  // The holder of the address, which comes back and joins again.
  auto reset = at(*first, {"reset", "--reboot", "--system-labels-to-wipe", "EPHEMERAL"});
  EXPECT_EQ(0, reset.status) << reset.err;
  EXPECT_TRUE(contains(reset.err, "etcd has 3 voters, which tolerate 1 failure; without " +
                                      first->name + " it has 2 voters, which tolerate no failure"))
      << reset.err;
  ASSERT_TRUE(eventually([&] { return voters(others[0]) == 3; }, kTimeout)) << members(others[0]);
  auto before = at(*first, {"logs", "etcd-supervisor", "--previous"}).out;
  EXPECT_TRUE(contains(before, "leaving the cluster; waiting until vipd has given up 10.5.0.50"))
      << before;
  EXPECT_FALSE(contains(before, "vipd has not given up")) << before;
  auto vipd = at(*first, {"logs", "vipd", "--previous"}).out;
  EXPECT_TRUE(contains(vipd, "gave up the shared address")) << vipd;
  const EtcdNode* second = nullptr;
  ASSERT_TRUE(eventually([&] { return (second = holder(nodes.all())) != nullptr; }, kTimeout));
  EXPECT_NE(first->name, second->name);

  // For good.
  auto off = at(*first, {"reset"});
  EXPECT_EQ(0, off.status) << off.err;
  EXPECT_TRUE(eventually([&] { return voters(others[0]) == 2; }, kTimeout)) << members(others[0]);
  EXPECT_FALSE(contains(members(others[0]), first->name));
  EXPECT_TRUE(eventually([&] { return holder(others) != nullptr; }, kTimeout));

  // With one of the two remaining nodes down, the other must not leave.
  nodes.kill(others[1]);
  auto same = nodes.bootId(others[0]);
  auto refused = at(others[0], {"reset"});
  EXPECT_EQ(1, refused.status) << refused.err;
  EXPECT_TRUE(contains(refused.err, "etcd has 2 voters (")) << refused.err;
  EXPECT_TRUE(std::regex_search(refused.err, std::regex("; " + others[1].name +
                                                        " \\(.*\\) is not healthy: now there is no "
                                                        "quorum \\(1 answers, 2 must\\)")))
      << refused.err;
  EXPECT_TRUE(contains(refused.err, "--graceful=false")) << refused.err;
  EXPECT_EQ(same, nodes.bootId(others[0])) << "it has restarted";
  EXPECT_FALSE(contains(at(others[0], {"get", "etcdstatus"}).out, " leaving "));

  // When it is back, it may; and then the last one may not.
  nodes.start(others[1]);
  ASSERT_TRUE(eventually([&] { return voters(others[0]) == 2; }, kTimeout)) << members(others[0]);
  ASSERT_TRUE(eventually([&] { return at(others[1], {"reset"}).status == 0; }, kTimeout));
  ASSERT_TRUE(eventually([&] { return voters(others[0]) == 1; }, kTimeout)) << members(others[0]);
  auto last = at(others[0], {"reset"});
  EXPECT_EQ(1, last.status) << last.err;
  EXPECT_TRUE(contains(last.err,
                       "this node is the only one: the cluster, and all of its data, "
                       "would end with it"))
      << last.err;
  auto all = at(others[0], {"reset", "--graceful=false"});
  EXPECT_EQ(0, all.status) << all.err;
  EXPECT_TRUE(contains(all.err, others[0].name + " is the only voter: the cluster, and all of its "
                                                 "data, end with it"))
      << all.err;
}

}  // namespace talos
