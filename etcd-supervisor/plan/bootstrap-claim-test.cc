// Verdicts on claims: one cluster, whichever nodes are bootstrapped.
// ../membership/membership-changes-test.cc tests that they suffice.
#include "etcd-supervisor/plan/bootstrap-claim.h"

#include <gtest/gtest.h>

#include "etcd-supervisor/plan/membership-phase.h"

namespace talos::supervisor {
namespace {

using State = BootstrapState::State;

PeerAnswer answer(kj::StringPtr host, kj::StringPtr name, State state, int64_t since = 0) {
  return {
      .host = kj::str(host),
      .address = kj::str(host),
      .shared = false,
      .said = BootstrapState{.name = kj::str(name), .state = state, .cluster = 0, .since = since}};
}
PeerAnswer silence(kj::StringPtr host, bool shared = false) {
  return {.host = kj::str(host),
          .address = kj::str(host),
          .shared = shared,
          .said = kj::str("connection refused")};
}

const Claim kClaim{"b", 7};

template <typename... T>
Verdict judged(T&&... asked) {
  return judge(kClaim, kj::arr(kj::mv(asked)...));
}

TEST(Claim, NodeAloneMakesTheCluster) {
  EXPECT_EQ(judge(kClaim, nullptr).what, Verdict::What::kMake);
}

TEST(Claim, EverybodyElseHasNone) {
  EXPECT_EQ(
      judged(answer("10.0.0.1", "a", State::kNone), answer("10.0.0.3", "c", State::kNone)).what,
      Verdict::What::kMake);
}

TEST(Claim, OneHasAClusterWhateverTheOthersSay) {
  auto verdict = judged(silence("10.0.0.1"), answer("10.0.0.3", "c", State::kMember));
  EXPECT_EQ(verdict.what, Verdict::What::kWithdraw);
  EXPECT_EQ(verdict.kind, ErrorKind::kFailedPrecondition);
  EXPECT_EQ(verdict.message, "c (10.0.0.3) has a cluster already; this node joins it by itself");
}

TEST(Claim, ClaimIsWithdrawnIfAnotherNodeMakesTheCluster) {
  auto verdict = judged(answer("10.0.0.3", "c", State::kMakes));
  EXPECT_EQ(verdict.what, Verdict::What::kWithdraw);
  EXPECT_EQ(verdict.kind, ErrorKind::kConflict);
  EXPECT_EQ(verdict.message, "c (10.0.0.3) makes the cluster; this node will join it");
}

TEST(Claim, TheLowerNameGoesFirst) {
  auto lower = judged(answer("10.0.0.1", "a", State::kClaims));
  EXPECT_EQ(lower.what, Verdict::What::kWithdraw);
  EXPECT_EQ(lower.kind, ErrorKind::kConflict);
  EXPECT_EQ(lower.message,
            "a (10.0.0.1) was bootstrapped as well and goes first; this node will join it");
  auto higher = judged(answer("10.0.0.3", "c", State::kClaims));
  EXPECT_EQ(higher.what, Verdict::What::kAsk);
}

TEST(Claim, SilenceIsNoConsentExceptOfASharedAddress) {
  auto verdict = judged(answer("10.0.0.1", "a", State::kNone), silence("10.0.0.3"));
  EXPECT_EQ(verdict.what, Verdict::What::kAsk);
  EXPECT_EQ(verdict.message, "no answer from 10.0.0.3 (connection refused)");
  EXPECT_EQ(judged(silence("10.0.0.9", true)).what, Verdict::What::kMake);
  EXPECT_EQ(judged(answer("10.0.0.9", "c", State::kMember)).what, Verdict::What::kWithdraw);
}

TEST(Claim, NodeThatAsksItselfIsNoRival) {
  EXPECT_EQ(judged(answer("node", "b", State::kClaims, 7)).what, Verdict::What::kMake);
}

TEST(Claim, AnotherNodeOfTheSameName) {
  for (auto asked : {State::kNone, State::kClaims}) {
    auto verdict = judged(answer("10.0.0.3", "b", asked, 8));
    EXPECT_EQ(verdict.what, Verdict::What::kWithdraw);
    EXPECT_EQ(verdict.message,
              "10.0.0.3 is another node with the name b, which must be unique; set "
              "machine.network.hostname");
  }
}

// Catches: a node that has left its cluster and makes a new one that no node knows.
TEST(Claim, ANodeWithoutDataSaysThatItClaims) {
  for (auto state : {Intent::State::kNone, Intent::State::kLeft}) {
    Intent intent;
    intent.state = state;
    EXPECT_EQ(State::kNone, bootstrapStateOf(intent, Data::kNone, false));
    EXPECT_EQ(State::kClaims, bootstrapStateOf(intent, Data::kNone, true));
  }
  Intent makes;
  makes.state = Intent::State::kMakes;
  EXPECT_EQ(State::kMakes, bootstrapStateOf(makes, Data::kNone, false));
  EXPECT_EQ(State::kMember, bootstrapStateOf(makes, Data::kWhole, false));
}

}  // namespace
}  // namespace talos::supervisor
