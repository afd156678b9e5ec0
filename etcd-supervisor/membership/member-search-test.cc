// Clusters whose nodes were switched off and have other addresses when they are switched on, on a
// model of everything that membership stands on (test-membership-bed.h).
#include "etcd-supervisor/membership/member-search.h"

#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

// Switches all nodes off and gives them other addresses.
void carry(Testbed& bed, std::initializer_list<kj::StringPtr> addresses) {
  for (auto& node : bed.nodes) bed.powerOff(*node);
  size_t i = 0;
  for (auto address : addresses) bed.nodes[i++]->config.addresses[0] = kj::str(address);
}

kj::String listed(const Node& node) {
  return kj::str(node.disk.cluster->members.at(node.disk.member).member.peerUrls[0]);
}

bool isSettled(Testbed& bed) {
  for (auto& node : bed.nodes) {
    if (!node->on) continue;
    if (!bed.votes(*node) || listed(*node) != urlOf(node->address(), 2380)) return false;
    KJ_IF_MAYBE (wanted, node->wanted) {
      if (wanted->proxy.size() > 0) return false;
    }
    if (!node->message.empty()) return false;
  }
  return bed.quorum();
}

kj::String messages(Testbed& bed) {
  return kj::strArray(KJ_MAP(node, bed.nodes) { return kj::str(node->message.c_str()); }, " | ");
}

// Catches: a cluster that has no quorum for ever after a move, makes a second one, or keeps the
// proxy.
TEST_F(Membership, MovedClusterFindsItselfAgain) {
  formed();
  carry(bed, {"10.9.0.7", "10.9.0.8", "10.9.0.9"});
  for (auto& node : bed.nodes) bed.powerOn(*node);
  EXPECT_TRUE(bed.eventually(5 * kj::MINUTES, [&] { return isSettled(bed); }))
      << messages(bed).cStr();
  EXPECT_EQ(1u, bed.clusters.size());
}

// Catches: nodes that got each other's addresses and connect to the wrong one, or to themselves.
TEST_F(Membership, MovedNodesMayHaveEachOthersAddresses) {
  formed();
  carry(bed, {"10.0.0.2", "10.0.0.3", "10.0.0.1"});
  for (auto& node : bed.nodes) bed.powerOn(*node);
  EXPECT_TRUE(bed.eventually(5 * kj::MINUTES, [&] { return isSettled(bed); }))
      << messages(bed).cStr();
}

// Catches: a member that is switched on later, and knows former addresses alone, when the others
// have new URLs and no proxy any more.
TEST_F(Membership, MemberThatComesLaterFindsTheMovedOnes) {
  formed();
  carry(bed, {"10.9.0.7", "10.9.0.8", "10.9.0.9"});
  bed.powerOn(n1);
  bed.powerOn(n2);
  auto two = [&] {
    return bed.quorum() && listed(n1) == "https://10.9.0.7:2380" &&
           listed(n2) == "https://10.9.0.8:2380";
  };
  ASSERT_TRUE(bed.eventually(5 * kj::MINUTES, two)) << messages(bed).cStr();
  bed.pass(10 * kj::MINUTES);
  bed.powerOn(n3);
  EXPECT_TRUE(bed.eventually(5 * kj::MINUTES, [&] { return isSettled(bed); }))
      << messages(bed).cStr();
}

// Catches: a search, or another list of members, by one node alone.
TEST_F(Membership, MovedMemberAloneWaitsAndSaysForWhom) {
  formed();
  carry(bed, {"10.9.0.7", "10.9.0.8", "10.9.0.9"});
  bed.powerOn(n1);
  EXPECT_TRUE(bed.eventually(2 * kj::MINUTES, [&] {
    return n1.message.find("looking for n2 (before: 10.0.0.2), n3 (before: 10.0.0.3)") !=
           std::string::npos;
  })) << n1.message;
  bed.pass(30 * kj::MINUTES);
  EXPECT_FALSE(bed.quorum());
  EXPECT_EQ(1u, bed.clusters.size());
  EXPECT_EQ("https://10.0.0.1:2380", listed(n1));
}

// Catches: a second restart of etcd, with the proxy, for a single node that gets another address
// while the others keep theirs.
TEST_F(Membership, MovedMemberThatReachesTheOthersNeedsNoProxy) {
  formed();
  bed.powerOff(n1);
  n1.config.addresses[0] = kj::str("10.0.0.11");
  bed.powerOn(n1);
  bool proxied = false;
  EXPECT_TRUE(bed.eventually(5 * kj::MINUTES, [&] {
    KJ_IF_MAYBE (wanted, n1.wanted) proxied = proxied || wanted->proxy.size() > 0;
    return isSettled(bed);
  })) << messages(bed).cStr();
  EXPECT_FALSE(proxied);
}

// Catches: state that is lost when etcd-supervisor dies at any write of a move.
TEST(MovedMembership, MoveSurvivesCrashesOfTheSupervisors) {
  Quiet quiet;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    Testbed many(seed, 3);
    for (auto& node : many.nodes) many.powerOn(*node);
    many.pass(5 * kj::SECONDS);
    bootstrap(many, *many.nodes[0]);
    auto voting = [&] {
      unsigned count = 0;
      for (auto& node : many.nodes) count += many.votes(*node) ? 1 : 0;
      return count == 3;
    };
    ASSERT_TRUE(many.eventually(10 * kj::MINUTES, voting)) << seed;
    many.pass(30 * kj::SECONDS);
    carry(many, {"10.9.0.7", "10.9.0.8", "10.9.0.9"});
    many.crashes = 0.1;
    for (auto& node : many.nodes) many.powerOn(*node);
    many.pass(2 * kj::MINUTES);
    many.crashes = 0;
    EXPECT_TRUE(many.eventually(10 * kj::MINUTES, [&] { return isSettled(many); }))
        << seed << ": " << messages(many).cStr();
    for (auto& violation : many.violations) ADD_FAILURE() << seed << ": " << violation;
  }
}

}  // namespace
}  // namespace talos::supervisor
