// Members whose node gets another address, on a model of everything that membership stands on
// (test-membership-bed.h).
#include "etcd-supervisor/membership/peer-url.h"

#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kOther = "10.0.0.11"_kj, kOtherUrl = "https://10.0.0.11:2380"_kj;

void readdress(Node& node, kj::StringPtr address) {
  node.config.addresses[0] = kj::str(address);
  node.wake();
}

// Returns the URL that the list of members has for this node.
kj::String listed(const Node& node) {
  return kj::str(node.disk.cluster->members.at(node.disk.member).member.peerUrls[0]);
}

// Returns true if its etcd was started with the address of the config.
bool hasAddress(const Node& node) {
  auto url = urlOf(node.config.addresses[0], 2379);
  for (auto& argument : node.runsBy) {
    if (argument.key == "advertise-client-urls") return argument.value == url;
  }
  return false;
}

bool says(const Node& node, std::string_view words) {
  return node.message.find(words) != std::string::npos;
}

// Catches: a member that the others call at the address with which it joined, for ever; a URL that
// is changed only when etcd listens at the new address already, or without its turn.
TEST_F(Membership, PeerUrlIsChangedBeforeEtcdRestartsWithAnotherAddress) {
  formed();
  readdress(n1, kOther);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] {
    for (int i = 0; i < 50; ++i) {
      bed.pass(20 * kj::MILLISECONDS);
      if (hasAddress(n1) && listed(n1) != kOtherUrl) ADD_FAILURE() << "etcd was restarted first";
      if (!bed.quorum()) ADD_FAILURE() << "the restart has cost the quorum";
    }
    return hasAddress(n1) && n1.serves();
  })) << n1.message;
  EXPECT_EQ(listed(n1), kOtherUrl);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all() && n1.message.empty(); })) << n1.message;
}

// Catches: leases that no other node can renew, because the members call their leader at an address
// where it does not listen yet.
TEST_F(Membership, MemberDoesNotLeadWhenItsPeerUrlIsChanged) {
  formed();
  auto& cluster = *bed.clusters[0];
  ASSERT_EQ(cluster.leader, n1.disk.member);
  readdress(n1, kOther);
  auto until = bed.timer.now() + kTimeout;
  while (listed(n1) != kOtherUrl) {
    ASSERT_LT(bed.timer.now(), until) << n1.message;
    bed.pass(1 * kj::MILLISECONDS);
  }
  EXPECT_NE(cluster.leader, n1.disk.member);
}

// Catches: a URL that is changed while the member waits for its turn, and does not listen there.
TEST_F(Membership, PeerUrlStaysWhileTheOthersNeedTheMember) {
  formed();
  bed.powerOff(n3);
  bed.pass(10 * kj::SECONDS);
  readdress(n1, kOther);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return says(n1, "waiting to restart etcd"); }));
  bed.pass(1 * kj::MINUTES);
  EXPECT_EQ(listed(n1), "https://10.0.0.1:2380");
  bed.powerOn(n3);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return hasAddress(n1) && all(); })) << n1.message;
  EXPECT_EQ(listed(n1), kOtherUrl);
}

// Catches: a URL of the config from before the wait for the turn, at which etcd never listens.
TEST_F(Membership, PeerUrlIsThatOfTheConfigAtTheEndOfTheWait) {
  formed();
  withdraw(bed, n2, Going::kRestarts);
  EXPECT_EQ(outcome(), "n2 withdraw: done");
  readdress(n1, kOther);
  ASSERT_TRUE(bed.eventually(kTimeout, [&] { return says(n1, "waiting until n2 has restarted"); }))
      << n1.message;
  readdress(n1, "10.0.0.12");
  bed.pass(1 * kj::SECONDS);
  n2.process->reconciler.stay();
  EXPECT_TRUE(bed.eventually(kTimeout, [&] {
    for (int i = 0; i < 50; ++i) {
      bed.pass(20 * kj::MILLISECONDS);
      if (listed(n1) == kOtherUrl) ADD_FAILURE() << "the members have the address from before";
    }
    return hasAddress(n1) && all();
  })) << n1.message;
  EXPECT_EQ(listed(n1), "https://10.0.0.12:2380");
}

// Catches: a crash between the change and the restart after which etcd keeps its old arguments.
TEST_F(Membership, EtcdRestartsAfterACrashThatFollowsTheChangeOfItsPeerUrl) {
  formed();
  readdress(n1, kOther);
  auto until = bed.timer.now() + kTimeout;
  while (listed(n1) != kOtherUrl) {
    ASSERT_LT(bed.timer.now(), until) << n1.message;
    bed.pass(1 * kj::MILLISECONDS);
  }
  EXPECT_FALSE(hasAddress(n1));
  bed.crash(n1);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return hasAddress(n1) && all(); })) << n1.message;
  EXPECT_EQ(listed(n1), kOtherUrl);
}

// Catches: a URL that stays because the member has needed no turn to start with the new address.
TEST_F(Membership, PeerUrlIsChangedAfterARebootWithAnotherAddress) {
  formed();
  bed.powerOff(n1);
  n1.config.addresses[0] = kj::str(kOther);
  bed.pass(10 * kj::SECONDS);
  bed.powerOn(n1);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return listed(n1) == kOtherUrl && all(); }))
      << n1.message;
}

// Catches: a member that restarts at once with an address for which etcd has refused the URL; a
// cause that is not shown; a member without others whose URL is never changed.
TEST_F(Membership, PeerUrlThatAnotherMemberHasIsTheReasonWhyEtcdDoesNotRestart) {
  bed.powerOn(n1);
  bed.pass(5 * kj::SECONDS);
  bootstrap(bed, n1, {"10.0.0.2", "10.0.0.3"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
  auto& members = bed.clusters[0]->members;
  auto& other = members[0x99].member;
  other.id = 0x99;
  other.learner = true;
  other.peerUrls = kj::arr(kj::str(kOtherUrl));
  readdress(n1, kOther);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] {
    return says(n1,
                "waiting to restart etcd with the changed config: cannot change the peer URL of "
                "this node's member from https://10.0.0.1:2380 to https://10.0.0.11:2380: ") &&
           says(n1, "Peer URLs already exists");
  })) << n1.message;
  EXPECT_FALSE(hasAddress(n1));
  EXPECT_TRUE(n1.serves());
  members.erase(0x99);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return hasAddress(n1) && n1.serves(); }))
      << n1.message;
  EXPECT_EQ(listed(n1), kOtherUrl);
}

// Catches: a URL that changes with the order in which the links of a node come up; a URL that stays
// although etcd does not listen there any more.
TEST(PeerUrl, ThatTheConfigStillAdvertisesIsNotChanged) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  etcd::ModelCluster cluster(timer);
  etcd::ModelEtcd client(cluster);
  auto own = cluster.leader;
  Config config;
  config.addresses.add(kj::str(kOther));
  config.addresses.add(kj::str("10.5.0.2"));
  EXPECT_FALSE(changePeerUrl(client, config, own).wait(scope));
  EXPECT_EQ(cluster.members.at(own).member.peerUrls[0], "https://10.5.0.2:2380");
  config.listenAddresses.add(kj::str("10.5.0.2"));
  EXPECT_FALSE(changePeerUrl(client, config, own).wait(scope));
  config.listenAddresses[0] = kj::str(kOther);
  EXPECT_TRUE(changePeerUrl(client, config, own).wait(scope));
  EXPECT_EQ(cluster.members.at(own).member.peerUrls[0], kOtherUrl);
}

// Catches: a learner that etcd stores as a voter, because a request to change its URL does not say
// that it is a learner.
TEST(PeerUrl, OfALearnerIsNotChanged) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  etcd::ModelCluster cluster(timer);
  etcd::ModelEtcd client(cluster);
  auto added = client.addMember(kj::arr(kj::str("https://10.0.0.1:2380")), true).wait(scope);
  Config config;
  config.addresses.add(kj::str(kOther));
  EXPECT_FALSE(changePeerUrl(client, config, added.member.id).wait(scope));
  EXPECT_TRUE(cluster.members.at(added.member.id).member.learner);
  auto voter = cluster.leader;
  EXPECT_TRUE(changePeerUrl(client, config, voter).wait(scope));
  EXPECT_EQ(cluster.members.at(voter).member.peerUrls[0], kOtherUrl);
  EXPECT_FALSE(changePeerUrl(client, config, voter).wait(scope)) << "the members have it";
}

// Catches: a URL that etcd, or the peers that call it, do not take for the same address.
TEST(PeerUrlText, OtherFormIsOfTheSameAddress) {
  EXPECT_EQ("https://[::ffff:10.0.0.2]:2380", otherPeerUrlOf("10.0.0.2"));
  EXPECT_EQ("https://[FD00:0000:0000:0000:0000:0000:0000:00A2]:2380", otherPeerUrlOf("fd00::a2"));
  for (auto address : {"10.0.0.2", "fd00::a2"}) {
    auto url = otherPeerUrlOf(address);
    EXPECT_EQ(Ip::require(address), Ip::require(hostOf(url)).unmapped());
    EXPECT_NE(url, urlOf(address, 2380));
  }
}

}  // namespace
}  // namespace talos::supervisor
