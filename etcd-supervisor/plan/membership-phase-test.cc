// An intent as it is stored, and after a start.
#include "etcd-supervisor/plan/membership-phase.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::supervisor {
namespace {

TEST(Intent, IsReadAsItWasWritten) {
  using State = Intent::State;
  Intent intents[] = {
      {},
      {.state = State::kMakes,
       .cluster = kj::str("0123456789abcdef"),
       .recovers = true,
       .skipHashCheck = true},
      {.state = State::kJoins,
       .member = 0xfedcba9876543210,
       .cluster = kj::str("a=https://10.0.0.1:2380")},
      {.state = State::kLeft, .member = 7},
      {.member = 7, .rebootLease = 0x7587a1b2c3d4e5f6},
  };
  intents[0].learnedPeers.add(kj::str("10.0.0.2"));
  intents[0].learnedPeers.add(kj::str("fd00::2"));
  for (auto& intent : intents) {
    auto read = parseIntent(format(intent));
    EXPECT_EQ(format(read), format(intent));
    EXPECT_EQ(read.member, intent.member);
    EXPECT_EQ(read.rebootLease, intent.rebootLease);
    EXPECT_EQ(read.cluster, intent.cluster);
    EXPECT_EQ(read.recovers, intent.recovers);
    EXPECT_EQ(joined(read.learnedPeers), joined(intent.learnedPeers));
  }
}

// Catches: an etcd that does not start after a fall-back, because the system on trial has written a
// line that this one does not know; a line that is lost for the later release.
TEST(Intent, LinesOfALaterReleaseAreKept) {
  auto text = "state joins\nmember 7\ncluster a=b\nwitness n2\nlater-key\n"_kj;
  auto intent = parseIntent(text);
  EXPECT_TRUE(intent.state == Intent::State::kJoins);
  EXPECT_EQ(intent.member, 7u);
  EXPECT_EQ(format(intent.clone()), text);
}

TEST(Intent, DamageIsNamed) {
  for (auto text : {"", "state makes", "state flies\n", "state makes\nmember x\n", "makes\n",
                    "state none\nreboot-lease -1\n", "state makes\n\x01\n"}) {
    auto failure = kj::runCatchingExceptions([&] { parseIntent(text); });
    KJ_IF_MAYBE (e, failure) {
      EXPECT_EQ(kindOf(*e), ErrorKind::kInvalidArgument) << text;
    } else {
      ADD_FAILURE() << text;
    }
  }
}

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
