#include "talosctl/recover/recovery-plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "talosctl/recover/test-recovery-nodes.h"

namespace talos::talosctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> texts(const kj::Vector<kj::String>& all) {
  std::vector<std::string> result;
  for (auto& text : all) result.push_back(text.cStr());
  return result;
}

struct Planned {
  std::vector<std::string> refusals, erased;
};
Planned plan(kj::ArrayPtr<const RecoveryNode> nodes, std::vector<const char*> without = {},
             bool force = false) {
  auto names = kj::heapArrayBuilder<kj::String>(without.size());
  for (auto name : without) names.add(kj::str(name));
  auto gone = names.finish();
  auto plan = planRecovery(nodes, {.without = gone, .force = force});
  return {texts(plan.refusals), texts(plan.erased)};
}

}  // namespace

TEST(RecoveryPlan, OneOfThreeIsLeftAndTwoMachinesAreNew) {
  auto nodes = kj::arr(survivorOf(1, {1, 2, 3}), emptyNode(2), emptyNode(3));
  auto planned = plan(nodes);
  EXPECT_THAT(planned.refusals, IsEmpty());
  EXPECT_THAT(planned.erased, ElementsAre("10.5.0.2"));
}

TEST(RecoveryPlan, NothingIsLeft) {
  auto nodes = kj::arr(emptyNode(1), emptyNode(2), emptyNode(3));
  auto planned = plan(nodes);
  EXPECT_THAT(planned.refusals, IsEmpty());
  EXPECT_THAT(planned.erased, IsEmpty());
}

// Catches: a working cluster that is erased, even with --force and with one of its nodes down.
TEST(RecoveryPlan, ACLusterWithItsQuorumIsNeverReplaced) {
  auto nodes = kj::arr(survivorOf(1, {1, 2, 3}), survivorOf(2, {1, 2, 3}), emptyNode(3));
  nodes[0].quorum = nodes[1].quorum = true;
  for (bool force : {false, true}) {
    EXPECT_THAT(plan(nodes, {}, force).refusals,
                ElementsAre(HasSubstr("10.5.0.2 is a member of a cluster that has its quorum"),
                            HasSubstr("10.5.0.3 is a member of a cluster that has its quorum")));
  }
}

// Catches: an erased cluster whose quorum was lost only for a moment.
TEST(RecoveryPlan, VotersWithTheirDataMayBecomeAQuorum) {
  auto nodes = kj::arr(survivorOf(1, {1, 2, 3}), survivorOf(2, {1, 2, 3}), emptyNode(3));
  nodes[1].message = kj::str("no leader");
  EXPECT_THAT(plan(nodes).refusals,
              ElementsAre(HasSubstr("2 of 3 voters have their data, which is a quorum: 10.5.0.2 "
                                    "is member; 10.5.0.3 is member: no leader; repair that, or "
                                    "use --force")));
  auto forced = plan(nodes, {}, true);
  EXPECT_THAT(forced.refusals, IsEmpty());
  EXPECT_THAT(forced.erased, ElementsAre("10.5.0.2", "10.5.0.3"));
}

// Catches: a learner that counts as a voter: of 2 voters, both are needed for the quorum.
TEST(RecoveryPlan, LearnersDoNotCount) {
  auto nodes = kj::arr(survivorOf(1, {1, 2, 3}), emptyNode(2), survivorOf(3, {1, 2, 3}));
  for (auto node : {&nodes[0], &nodes[2]}) node->members[2].learner = true;
  EXPECT_THAT(plan(nodes).refusals, IsEmpty());
}

// Catches: a forgotten member that comes back with the other half of a quorum.
TEST(RecoveryPlan, EveryVoterIsAccountedFor) {
  auto nodes = kj::arr(survivorOf(1, {1, 2, 3}), emptyNode(4));
  EXPECT_THAT(plan(nodes).refusals,
              ElementsAre(HasSubstr("m-2 (10.5.0.3) is a member of the cluster and not among"),
                          HasSubstr("m-3 (10.5.0.4) is a member of the cluster and not among")));
  EXPECT_THAT(plan(nodes, {"m-2", "10.5.0.4"}).refusals, IsEmpty());
  EXPECT_THAT(plan(nodes, {"m-2", "::ffff:10.5.0.4"}).refusals, IsEmpty());
  EXPECT_THAT(plan(nodes, {"m-2"}).refusals, ElementsAre(HasSubstr("m-3 (10.5.0.4)")));
  EXPECT_THAT(plan(nodes, {}, true).refusals, IsEmpty());

  // Two survivors report the same, and it is printed once.
  auto five = kj::arr(survivorOf(1, {1, 2, 3, 4, 5}), survivorOf(2, {1, 2, 3, 4, 5}), emptyNode(3),
                      emptyNode(4));
  EXPECT_THAT(plan(five).refusals, ElementsAre(HasSubstr("m-5 (10.5.0.6)")));
}

// Catches: a node with a changed address that counts as a new node beside its old member.
TEST(RecoveryPlan, AMemberIsKnownByItsNameToo) {
  auto nodes = kj::arr(survivorOf(1, {1, 2}), emptyNode(7));
  nodes[1].hostname = kj::str("m-2");
  EXPECT_THAT(plan(nodes).refusals, IsEmpty());
}

TEST(RecoveryPlan, SilentNodesAndWorkers) {
  auto nodes = kj::arr(survivorOf(1, {1, 2, 3}), emptyNode(2), emptyNode(3));
  nodes[1] = RecoveryNode();
  nodes[1].address = kj::str("10.5.0.3");
  nodes[1].silence = kj::str("no route to host");
  nodes[2].controlPlane = false;
  auto planned = plan(nodes);
  EXPECT_THAT(planned.refusals,
              ElementsAre(HasSubstr("10.5.0.3 does not answer: no route to host; start it"),
                          HasSubstr("10.5.0.4 is a worker")));
}

// Catches: data that is ignored because etcd does not start with it.
TEST(RecoveryPlan, DataThatIsNotUsable) {
  auto nodes = kj::arr(emptyNode(1), emptyNode(2));
  nodes[0].damaged = true;
  nodes[0].message = kj::str("its data: /var/lib/etcd has files but no log of etcd");
  auto planned = plan(nodes);
  EXPECT_THAT(planned.refusals,
              ElementsAre(HasSubstr("10.5.0.2 is waiting: its data: /var/lib/etcd has files but no "
                                    "log of etcd; it has data, and its etcd does not say who")));
  planned = plan(nodes, {}, true);
  EXPECT_THAT(planned.refusals, IsEmpty());
  EXPECT_THAT(planned.erased, ElementsAre("10.5.0.2"));
}

TEST(RecoveryPlan, SaysWhatIsLost) {
  auto nodes = kj::arr(survivorOf(1, {1, 2, 3}), emptyNode(2));
  nodes[0].revision = 1300;
  EXPECT_THAT(
      texts(lossLines(nodes, 1234)),
      ElementsAre("10.5.0.2 has revision 1300: 66 newer than the snapshot (1234), which are "
                  "lost; talosctl etcd snapshot -n 10.5.0.2 saves them, and can be "
                  "recovered from instead"));
  EXPECT_THAT(texts(lossLines(nodes, 1300)),
              ElementsAre("10.5.0.2 has revision 1300: nothing that the snapshot (1300) has not"));
}

// Catches: a forged snapshot that is restored: signed by another CA, with another snapshot's
// signature, or unsigned; a node that alone determines which CAs are accepted.
TEST(RecoveryPlan, ASnapshotIsOfAMember) {
  auto other = pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256});
  auto nodes = kj::arr(survivorOf(1, {1, 2, 3}), emptyNode(2));
  auto refusals = [&](const SignedSnapshot& snapshot) {
    kj::Vector<kj::String> found;
    EXPECT_EQ(judgeSignature(nodes, snapshot, found) == nullptr, !found.empty());
    return texts(found);
  };
  EXPECT_THAT(refusals(signedSnapshot()), IsEmpty());
  EXPECT_THAT(refusals(signedSnapshot(other)),
              ElementsAre(HasSubstr("10.5.0.2: the snapshot is not signed by a member")));
  EXPECT_THAT(refusals(signedSnapshot(authority(), 2048)),
              ElementsAre(HasSubstr("the signature is of another snapshot")));
  auto none = signedSnapshot();
  none.signature = nullptr;
  EXPECT_THAT(refusals(none), ElementsAre(HasSubstr("not a valid signature")));
  // The first node accepts a CA of the attacker.
  nodes[0].authorities = kj::str(other.certificate);
  EXPECT_THAT(refusals(signedSnapshot(other)),
              ElementsAre(HasSubstr("10.5.0.3: the snapshot is not signed by a member")));
}

// Catches: a snapshot from before a rotation of etcd's CA that cannot be used for a recovery; a
// node of an earlier version that counts as accepting the signature.
TEST(RecoveryPlan, TheCaMayHaveBeenReplaced) {
  auto old = pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256});
  auto nodes = kj::arr(emptyNode(1));
  kj::Vector<kj::String> refusals;
  auto snapshot = signedSnapshot(old);
  EXPECT_TRUE(judgeSignature(nodes, snapshot, refusals) == nullptr);
  EXPECT_THAT(texts(refusals), ElementsAre(HasSubstr("name it with --etcd-ca")));
  snapshot.authorities = kj::str(old.certificate);
  EXPECT_TRUE(judgeSignature(nodes, snapshot, refusals) != nullptr);
  nodes[0].authorities = kj::str(authority().certificate, old.certificate);
  snapshot.authorities = nullptr;
  EXPECT_TRUE(judgeSignature(nodes, snapshot, refusals) != nullptr);
  nodes[0].authorities = nullptr;
  refusals.clear();
  EXPECT_TRUE(judgeSignature(nodes, snapshot, refusals) == nullptr);
  EXPECT_THAT(texts(refusals), ElementsAre(HasSubstr("does not say which CAs")));
}

}  // namespace talos::talosctl
