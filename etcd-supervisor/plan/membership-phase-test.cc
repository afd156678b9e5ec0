// What an intent means after a start.
#include "etcd-supervisor/plan/membership-phase.h"

#include <gtest/gtest.h>

namespace talos::supervisor {
namespace {

// Catches: a node that has left, was asked by one that makes a cluster, and forgets that with its
// reboot: told to bootstrap, it would ask nobody.
TEST(AtStart, WhoHasAskedIsForgottenWithAVoteOnly) {
  using State = Intent::State;
  struct Row {
    State state;
    Data data;
    bool sameBoot;
    State then;
    size_t heardOf;
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
    intent.heardOf.add(kj::str("10.0.0.2"));
    auto next = atStart(intent, row.data, row.sameBoot);
    SCOPED_TRACE(static_cast<int>(row.state));
    EXPECT_EQ(next.state, row.then);
    EXPECT_EQ(next.heardOf.size(), row.heardOf);
  }
}

}  // namespace
}  // namespace talos::supervisor
