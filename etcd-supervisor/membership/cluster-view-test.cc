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
struct Around final : Files, Board, Peers, Doors {
  std::vector<kj::Own<etcd::ModelEtcd>> doors;

  etcd::Etcd& at(kj::StringPtr where) override {
    for (unsigned i = 0; i < doors.size(); ++i) {
      if (where == address(i)) return *doors[i];
    }
    return *doors[0];
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
  kj::Maybe<const Wanted&> wanted() override { return nullptr; }
  kj::Promise<void> want(Wanted) override { return kj::READY_NOW; }
  kj::Promise<void> tell(const Status&, kj::ArrayPtr<const etcd::Member>) override {
    return kj::READY_NOW;
  }
  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr) override { return kj::NEVER_DONE; }
  kj::Promise<Standing> standing(kj::StringPtr, kj::StringPtr) override { return kj::NEVER_DONE; }
  kj::Promise<kj::Array<etcd::Member>> members(kj::StringPtr) override { return kj::NEVER_DONE; }
};

struct ClusterView : testing::Test {
  ~ClusterView() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  etcd::ModelCluster cluster{timer, "m0", peerUrl(0), clientUrl(0)};
  Around around;
  Edges edges{timer, kj::systemPreciseCalendarClock(), [] { return 0.5; }, around, around, around,
              around};
  View view{edges};
  Config config;
  kj::Vector<kj::String> known;

  ClusterView() {
    config.name = kj::str("m0");
    config.addresses.add(address(0));
    reach(cluster.leader);
    for (unsigned i = 1; i < kMembers; ++i) {
      auto& first = *around.doors[0];
      auto id = first.addMember(kj::arr(peerUrl(i)), true).wait(scope).member.id;
      cluster.start(id, kj::str("m", i), clientUrl(i));
      first.promoteMember(id).wait(scope);
      advance(timer, scope, 10 * kj::SECONDS);
      reach(id);
      known.add(address(i));
    }
  }
  void reach(etcd::MemberId id) { around.doors.push_back(kj::heap<etcd::ModelEtcd>(cluster, id)); }
  // They take what they are asked, and say nothing.
  void silence(unsigned from, unsigned until) {
    for (unsigned i = from; i < until; ++i) around.doors[i]->faults.hanging = true;
  }
  // What is seen; none: it takes longer.
  kj::Maybe<Seen> look(kj::Duration most) {
    kj::Maybe<Seen> seen;
    auto looking = view.look(config, known)
                       .then([&](Seen&& found) { seen = kj::mv(found); })
                       .eagerlyEvaluate(nullptr);
    advance(timer, scope, most);
    return seen;
  }
};

// Catches: members that are asked one after the other, so that five that are silent keep a caller
// waiting who gives up before; one that answers, and is not heard because those before it do not.
TEST_F(ClusterView, SilentMembersAreWaitedForAtOnce) {
  silence(0, kMembers - 1);
  KJ_IF_MAYBE (seen, look(4600 * kj::MILLISECONDS)) {
    EXPECT_TRUE(seen->quorum);
    ASSERT_EQ(kMembers, seen->members.size());
    EXPECT_GT(seen->members[1].problem.size(), 0u);
    EXPECT_TRUE(seen->members[kMembers - 1].status != nullptr);
  } else {
    ADD_FAILURE() << "it takes longer";
  }
  silence(0, kMembers);
  KJ_IF_MAYBE (seen, look(7 * kj::SECONDS)) {
    EXPECT_FALSE(seen->quorum);
    EXPECT_EQ(0u, seen->members.size());
    EXPECT_GT(seen->problem.size(), 0u);
  } else {
    ADD_FAILURE() << "it takes longer";
  }
}

// Catches: all members asked each time, although the first one knows all that there is to know.
TEST_F(ClusterView, OneThatAnswersIsEnoughForTheList) {
  for (auto& door : around.doors) door->calls.clear();
  auto found = view.members(known).wait(scope);
  EXPECT_EQ(kMembers, found.list.members.size());
  EXPECT_EQ(&found.through, around.doors[1].get());
  for (unsigned i = 2; i < kMembers; ++i) EXPECT_EQ(0u, around.doors[i]->calls.size());
  // One that refuses has no head start, and the order is that of the caller.
  around.doors[1]->faults.unreachable = true;
  auto next = view.members(known).wait(scope);
  EXPECT_EQ(&next.through, around.doors[2].get());
}

}  // namespace
}  // namespace talos::supervisor
