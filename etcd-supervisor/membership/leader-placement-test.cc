#include "etcd-supervisor/membership/leader-placement.h"

#include "common/etcd/address-elections.h"
#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

constexpr uint64_t kLeaderIndex = 5000;

// Returns members m1, the local one, which leads, m2 and m3.
ObservedCluster ledByFirstMember() {
  ObservedCluster observed;
  for (etcd::MemberId id : {1, 2, 3}) {
    etcd::Status status;
    status.member = id;
    status.leader = 1;
    status.raftTerm = 4;
    status.raftIndex = kLeaderIndex;
    ObservedMember member;
    member.member.id = id;
    member.member.name = kj::str("m", id);
    member.isLocal = id == 1;
    if (id == 1) observed.local = clone(status);
    member.status = kj::mv(status);
    observed.members.add(kj::mv(member));
  }
  return observed;
}

std::string betterThan(const ObservedCluster& observed, std::vector<const char*> holders) {
  kj::Vector<kj::String> names;
  for (auto name : holders) names.add(kj::str(name));
  KJ_IF_MAYBE (next, betterLeader(observed, names)) return next->member.name.cStr();
  return "none";
}

etcd::Status& statusOf(ObservedCluster& observed, unsigned member) {
  return KJ_ASSERT_NONNULL(observed.members[member - 1].status);
}

// Catches: a leader that moves although its node holds no address; a move from one holder to the
// next one, which would never end.
TEST(LeaderPlacement, HolderThatLeadsHasABetterLeader) {
  auto observed = ledByFirstMember();
  EXPECT_EQ("none", betterThan(observed, {}));
  EXPECT_EQ("none", betterThan(observed, {"m2"}));
  EXPECT_EQ("m2", betterThan(observed, {"m1"}));
  EXPECT_EQ("m3", betterThan(observed, {"m2", "m1"}));
  EXPECT_EQ("none", betterThan(observed, {"m1", "m2", "m3"}));
  observed.problem = kj::str("the cluster has no leader");
  EXPECT_EQ("none", betterThan(observed, {"m1"}));
}

// Catches: a move by a follower, and a move to a member that cannot lead, during which etcd takes
// no writes for an election timeout.
TEST(LeaderPlacement, MemberThatIsNotInSyncIsNotBetter) {
  auto observed = ledByFirstMember();
  statusOf(observed, 2).raftIndex = kLeaderIndex - 1001;
  EXPECT_EQ("m3", betterThan(observed, {"m1"}));
  statusOf(observed, 3).raftTerm = 3;
  EXPECT_EQ("none", betterThan(observed, {"m1"}));
  statusOf(observed, 3).raftTerm = 4;
  statusOf(observed, 3).leader = 0;
  EXPECT_EQ("none", betterThan(observed, {"m1"}));
  statusOf(observed, 3).leader = 1;
  observed.members[2].member.learner = true;
  EXPECT_EQ("none", betterThan(observed, {"m1"}));
  statusOf(observed, 2).raftIndex = kLeaderIndex;
  observed.members[1].status = nullptr;
  observed.members[1].problem = kj::str("no answer within 2 s");
  EXPECT_EQ("none", betterThan(observed, {"m1"}));
  observed = ledByFirstMember();
  KJ_ASSERT_NONNULL(observed.local).leader = 2;
  EXPECT_EQ("none", betterThan(observed, {"m1"}));
}

// Makes a node the holder of an address.
void hold(Testbed& bed, kj::StringPtr address, const Node& node) {
  etcd::ModelEtcd client(*bed.clusters[0]);
  etcd::Put request;
  request.key = kj::str(etcd::kAddressElections, address, "/1");
  request.value = kj::str(node.config.name);
  client.put(kj::mv(request)).wait(bed.scope);
}

// Catches: a leadership that stays with the holder of an address, because the elections in etcd are
// not read, or that moves in circles when every node holds an address.
TEST_F(Membership, LeadershipMovesAwayFromHoldersOfAddresses) {
  formed();
  auto& cluster = *bed.clusters[0];
  ASSERT_EQ(cluster.leader, n1.disk.member);
  hold(bed, "10.0.0.100", n1);
  bed.pass(30 * kj::SECONDS);
  EXPECT_EQ(cluster.leader, n2.disk.member);
  hold(bed, "10.0.0.101", n2);
  bed.pass(30 * kj::SECONDS);
  EXPECT_EQ(cluster.leader, n3.disk.member);
  hold(bed, "10.0.0.102", n3);
  bed.pass(3 * kj::MINUTES);
  EXPECT_EQ(cluster.leader, n3.disk.member);
}

// Catches: a move to the member that is about to reboot or to leave, or a move that meets the
// checks of a node that has its turn.
TEST_F(Membership, LeadershipStaysWhileANodeHasItsTurn) {
  formed();
  auto& cluster = *bed.clusters[0];
  ASSERT_EQ(cluster.leader, n1.disk.member);
  withdraw(bed, n2, Going::kRestarts);
  ASSERT_EQ(outcome(), "n2 withdraw: done");
  hold(bed, "10.0.0.100", n1);
  bed.pass(1 * kj::MINUTES);
  EXPECT_EQ(cluster.leader, n1.disk.member) << "n2 is about to reboot";
  etcd::ModelEtcd client(cluster);
  etcd::Put change;
  change.key = kj::str("talos:v1:etcd:membership/1");
  change.value = kj::str("n3");
  client.put(kj::mv(change)).wait(bed.scope);
  n2.process->reconciler.stay();
  bed.pass(1 * kj::MINUTES);
  EXPECT_EQ(cluster.leader, n1.disk.member) << "n3 changes members";
  etcd::Delete end;
  end.keys.key = kj::str("talos:v1:etcd:membership/1");
  client.remove(kj::mv(end)).wait(bed.scope);
  bed.pass(30 * kj::SECONDS);
  EXPECT_EQ(cluster.leader, n2.disk.member);
}

// Catches: a member that cannot keep the leadership, and gets it again every minute.
TEST_F(Membership, LeadershipThatComesBackMovesLessAndLessOften) {
  formed();
  auto& cluster = *bed.clusters[0];
  hold(bed, "10.0.0.100", n1);
  unsigned moves = 0;
  for (int second = 0; second < 1800; ++second) {
    bed.pass(1 * kj::SECONDS);
    if (cluster.leader == n1.disk.member) continue;
    ++moves;
    cluster.moveLeader(cluster.leader, n1.disk.member);
  }
  EXPECT_EQ(moves, 5u);  // after 0, 1, 3, 7 and 15 minutes
}

}  // namespace
}  // namespace talos::supervisor
