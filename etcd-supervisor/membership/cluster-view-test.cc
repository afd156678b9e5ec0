#include "etcd-supervisor/membership/cluster-view.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/etcd/test-etcd.h"
#include "common/testing/virtual-time.h"

namespace talos::supervisor {
namespace {

constexpr unsigned kMembers = 6;

kj::String address(unsigned i) {
  return kj::str("10.5.0.", 2 + i);
}
kj::String peerUrl(unsigned i) {
  return urlOf(address(i), 2380);
}
kj::String clientUrl(unsigned i) {
  return urlOf(address(i), 2379);
}

// A node whose etcd runs, and the members that it reaches.
struct FakeNode final : Files, MembershipStore, Peers, EtcdEndpoints, MemberRoutes {
  std::vector<kj::Own<etcd::ModelEtcd>> endpoints;

  etcd::Etcd& at(kj::StringPtr where) override {
    for (unsigned i = 0; i < endpoints.size(); ++i) {
      if (where == address(i)) return *endpoints[i];
    }
    return *endpoints[0];
  }
  bool running() override { return true; }

  Data data() override { return Data::kWhole; }
  uint64_t freeBytes() override { return uint64_t{1} << 30; }
  Intent load() override { return {}; }
  void store(const Intent&) override {}
  void removeData() override {}
  kj::StringPtr snapshot() override { return "/snapshot"; }
  void removeSnapshot() override {}
  kj::Maybe<const Config&> config() override { return nullptr; }
  kj::Vector<kj::String> sharedAddresses() override { return {}; }
  kj::Vector<kj::String> kubernetesNodes() override { return {}; }
  kj::Vector<Prefix> subnets() override { return {}; }
  kj::Promise<kj::Array<FoundMember>> find(kj::Vector<kj::String>) override {
    return kj::NEVER_DONE;
  }
  void lead(kj::Vector<MemberRoute>) override {}
  kj::Maybe<const Wanted&> wanted() override { return nullptr; }
  kj::Promise<void> want(Wanted) override { return kj::READY_NOW; }
  kj::Promise<void> publish(const Status&, kj::ArrayPtr<const etcd::Member>) override {
    return kj::READY_NOW;
  }
  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr) override { return kj::NEVER_DONE; }
  kj::Promise<BootstrapState> bootstrapState(kj::StringPtr, kj::StringPtr) override {
    return kj::NEVER_DONE;
  }
  kj::Promise<kj::Array<etcd::Member>> members(kj::StringPtr) override { return kj::NEVER_DONE; }
};

struct ClusterViewTest : testing::Test {
  ~ClusterViewTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  etcd::ModelCluster cluster{timer, "m0", peerUrl(0), clientUrl(0)};
  FakeNode node;
  Dependencies deps{.timer = timer,
                    .clock = kj::systemPreciseCalendarClock(),
                    .chance = [] { return 0.5; },
                    .files = node,
                    .store = node,
                    .peers = node,
                    .endpoints = node,
                    .routes = node};
  ClusterView view{deps};
  Config config;
  kj::Vector<kj::String> known;

  ClusterViewTest() {
    config.name = kj::str("m0");
    config.addresses.add(address(0));
    reach(cluster.leader);
    for (unsigned i = 1; i < kMembers; ++i) {
      auto& first = *node.endpoints[0];
      auto id = first.addMember(kj::arr(peerUrl(i)), true).wait(scope).member.id;
      cluster.start(id, kj::str("m", i), clientUrl(i));
      first.promoteMember(id).wait(scope);
      advance(timer, scope, 10 * kj::SECONDS);
      reach(id);
      known.add(address(i));
    }
  }
  void reach(etcd::MemberId id) {
    node.endpoints.push_back(kj::heap<etcd::ModelEtcd>(cluster, id));
  }
  // Makes endpoints accept calls and never answer.
  void silence(unsigned from, unsigned until) {
    for (unsigned i = from; i < until; ++i) node.endpoints[i]->faults.hanging = true;
  }
  // Returns the view of the cluster; nullptr if it takes longer.
  kj::Maybe<ObservedCluster> look(kj::Duration most) {
    kj::Maybe<ObservedCluster> observed;
    auto looking = view.look(config, known)
                       .then([&](ObservedCluster&& found) { observed = kj::mv(found); })
                       .eagerlyEvaluate(nullptr);
    advance(timer, scope, most);
    return observed;
  }
};

// Catches: members that are queried one after the other, so that five silent ones make a caller
// wait until it gives up; a member whose answer is lost because those before it are silent.
TEST_F(ClusterViewTest, SilentMembersAreWaitedForAtOnce) {
  silence(0, kMembers - 1);
  KJ_IF_MAYBE (observed, look(4600 * kj::MILLISECONDS)) {
    EXPECT_TRUE(observed->quorum);
    ASSERT_EQ(kMembers, observed->members.size());
    EXPECT_GT(observed->members[1].problem.size(), 0u);
    EXPECT_TRUE(observed->members[kMembers - 1].status != nullptr);
  } else {
    ADD_FAILURE() << "it takes longer";
  }
  silence(0, kMembers);
  KJ_IF_MAYBE (observed, look(7 * kj::SECONDS)) {
    EXPECT_FALSE(observed->quorum);
    EXPECT_EQ(0u, observed->members.size());
    EXPECT_GT(observed->problem.size(), 0u);
  } else {
    ADD_FAILURE() << "it takes longer";
  }
}

// Catches: a member that is off and counts as healthy, because another one has got its address and
// answers there.
TEST_F(ClusterViewTest, AnotherMembersAnswerDoesNotCount) {
  std::swap(node.endpoints[1], node.endpoints[2]);
  KJ_IF_MAYBE (observed, look(4600 * kj::MILLISECONDS)) {
    ASSERT_EQ(kMembers, observed->members.size());
    for (auto i : kj::indices(observed->members)) {
      auto& member = observed->members[i];
      bool other = i == 1 || i == 2;
      EXPECT_EQ(other, member.status == nullptr) << i;
      EXPECT_EQ(other, member.problem.startsWith("another member, ")) << member.problem.cStr();
    }
  } else {
    ADD_FAILURE() << "it takes longer";
  }
}

// Catches: a local member that is reported as unhealthy seconds after it was, because the check
// waits for members that are silent; a local member without an answer that is reported as healthy.
TEST_F(ClusterViewTest, HealthOfTheLocalMemberDoesNotWaitForOthers) {
  silence(1, kMembers);
  for (auto& endpoint : node.endpoints) endpoint->calls.clear();
  auto healthy = view.localProblem();
  ASSERT_TRUE(healthy.poll(scope));
  EXPECT_STREQ("", healthy.wait(scope).cStr());
  for (unsigned i = 1; i < kMembers; ++i) EXPECT_EQ(0u, node.endpoints[i]->calls.size());
  silence(0, 1);
  auto silent = view.localProblem();
  advance(timer, scope, 4 * kj::SECONDS);
  ASSERT_TRUE(silent.poll(scope));
  EXPECT_GT(silent.wait(scope).size(), 0u);
}

// Catches: calls to all members each time, although the first one already has the list.
TEST_F(ClusterViewTest, OneThatAnswersIsEnoughForTheList) {
  for (auto& endpoint : node.endpoints) endpoint->calls.clear();
  auto found = view.members(known).wait(scope);
  EXPECT_EQ(kMembers, found.list.members.size());
  EXPECT_EQ(&found.through, node.endpoints[1].get());
  for (unsigned i = 2; i < kMembers; ++i) EXPECT_EQ(0u, node.endpoints[i]->calls.size());
  // A member that refuses has no head start, and the order is the caller's.
  node.endpoints[1]->faults.unreachable = true;
  auto next = view.members(known).wait(scope);
  EXPECT_EQ(&next.through, node.endpoints[2].get());
}

}  // namespace
}  // namespace talos::supervisor
