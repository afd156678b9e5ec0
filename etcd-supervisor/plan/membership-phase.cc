#include "etcd-supervisor/plan/membership-phase.h"

namespace talos::supervisor {

Phase phaseOf(const Intent& intent, Data data) {
  switch (intent.state) {
    case Intent::State::kMakes:
      return data == Data::kWhole ? Phase::kMember : Phase::kBootstrapping;
    case Intent::State::kJoins:
      return Phase::kJoining;
    case Intent::State::kLeaves:
      return Phase::kLeaving;
    case Intent::State::kLeft:
      return Phase::kLeft;
    case Intent::State::kNone:
      break;
  }
  return data == Data::kWhole  ? Phase::kMember
         : data == Data::kNone ? Phase::kWaiting
                               : Phase::kDamaged;
}

bool isRecovering(const Intent& intent, Data data) {
  return intent.recovers && data == Data::kWhole;
}

Intent atStart(const Intent& intent, Data data, bool sameBoot) {
  bool over = (intent.state == Intent::State::kMakes && data == Data::kWhole) ||
              (intent.state == Intent::State::kLeft && data == Data::kNone && !sameBoot);
  auto next = intent.clone();
  if (over) {
    // A node that has queried this one may have made a cluster since: only a vote of this node
    // rules that out.
    auto learnedPeers = kj::mv(next.learnedPeers);
    next = {};
    next.recovers = isRecovering(intent, data);
    if (intent.state == Intent::State::kLeft) next.learnedPeers = kj::mv(learnedPeers);
    return next;
  }
  // The data was removed by other means.
  if (next.state == Intent::State::kNone && data == Data::kNone) next.member = 0;
  return next;
}

BootstrapState::State bootstrapStateOf(const Intent& intent, Data data, bool claims) {
  using State = BootstrapState::State;
  switch (phaseOf(intent, data)) {
    case Phase::kBootstrapping:
      return State::kMakes;
    case Phase::kWaiting:
    case Phase::kLeft:
      return claims ? State::kClaims : State::kNone;
    default:
      return isRecovering(intent, data) ? State::kMakes : State::kMember;
  }
}

}  // namespace talos::supervisor
