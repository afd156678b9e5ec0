// An intent after a start.
#include "etcd-supervisor/plan/membership-phase.h"

#include <gtest/gtest.h>

namespace talos::supervisor {
namespace {

// Catches: a node that has left, was queried by a node that makes a cluster, and forgets this with
// its reboot: at a bootstrap it would query no other node.
TEST(AtStart, LearnedPeersStayUntilTheNodeVotes) {
  using State = Intent::State;
  struct Row {
    State state;
    Data data;
    bool sameBoot;
    State then;
    size_t learnedPeers;
  };
  const Row rows[] = {
      {State::kNone, Data::kNone, false, State::kNone, 1},
      {State::kLeft, Data::kNone, true, State::kLeft, 1},
      {State::kLeft, Data::kNone, false, State::kNone, 1},
      {State::kMakes, Data::kNone, false, State::kMakes, 1},
      {State::kMakes, Data::kWhole, false, State::kNone, 0},
  };
  for (auto& row : rows) {
    Intent intent;
    intent.state = row.state;
    intent.learnedPeers.add(kj::str("10.0.0.2"));
    auto next = atStart(intent, row.data, row.sameBoot);
    SCOPED_TRACE(static_cast<int>(row.state));
    EXPECT_EQ(next.state, row.then);
    EXPECT_EQ(next.learnedPeers.size(), row.learnedPeers);
  }
}

// Catches: a recovery whose rest is skipped after a restart of the program; a recovering cluster
// that other nodes join early.
TEST(MembershipPhase, ARestoredSnapshotIsFollowedUpFirst) {
  Intent intent;
  intent.state = Intent::State::kMakes;
  intent.recovers = true;
  auto next = atStart(intent, Data::kWhole, true);
  EXPECT_EQ(next.state, Intent::State::kNone);
  EXPECT_TRUE(isRecovering(next, Data::kWhole));
  EXPECT_EQ(BootstrapState::State::kMakes, bootstrapStateOf(next, Data::kWhole, false));
  next.recovers = false;
  EXPECT_EQ(BootstrapState::State::kMember, bootstrapStateOf(next, Data::kWhole, false));
}

}  // namespace
}  // namespace talos::supervisor
