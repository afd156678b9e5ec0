#include "etcd-supervisor/plan/membership-phase.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kNobody =
    "a cluster: run talosctl bootstrap on one control-plane node, or wait for one that this node "
    "can join"_kj;
constexpr kj::StringPtr kDamage =
    "its data: /var/lib/etcd has files but no log of etcd (member/wal); recover them, or erase "
    "them with talosctl reset --system-labels-to-wipe=EPHEMERAL"_kj;
constexpr kj::StringPtr kGone =
    "the next reboot: this node left its cluster and joins one again then"_kj;

bool same(const kj::Vector<Argument>& a, const kj::Vector<Argument>& b) {
  if (a.size() != b.size()) return false;
  for (auto i : kj::indices(a)) {
    if (!(a[i] == b[i])) return false;
  }
  return true;
}

Wanted waits(kj::StringPtr what) {
  Wanted wanted;
  wanted.waitsFor = kj::str(what);
  return wanted;
}

Start startOf(const Intent& intent, Data data) {
  if (data == Data::kWhole) return {};
  if (intent.state == Intent::State::kJoins)
    return {Start::From::kExisting, kj::str(intent.cluster)};
  return {Start::From::kNew, kj::str(intent.cluster)};
}

}  // namespace

bool Wanted::operator==(const Wanted& other) const {
  return waitsFor == other.waitsFor && image == other.image && same(arguments, other.arguments) &&
         recoverFrom == other.recoverFrom && skipHashCheck == other.skipHashCheck;
}

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

Wanted wantedOf(const Config& config, const Intent& intent, Data data,
                kj::Maybe<const Wanted&> running, kj::StringPtr snapshot) {
  auto phase = phaseOf(intent, data);
  if (phase == Phase::kWaiting) return waits(kNobody);
  if (phase == Phase::kLeft) return waits(kGone);
  // Without its log a member would start from nothing, which no operator has requested.
  bool starts = phase == Phase::kBootstrapping || phase == Phase::kJoining;
  if (data != Data::kWhole && !starts) return waits(kDamage);
  Wanted wanted;
  wanted.image = kj::str(config.image);
  wanted.arguments = argumentsOf(config, startOf(intent, data));
  KJ_IF_MAYBE (now, running) {
    if (data == Data::kWhole && now->waitsFor.size() == 0) {
      wanted.arguments = keepFirstStart(kj::mv(wanted.arguments), now->arguments);
    }
  }
  if (phase == Phase::kBootstrapping && intent.recovers) {
    wanted.recoverFrom = kj::str(snapshot);
    wanted.skipHashCheck = intent.skipHashCheck;
  }
  return wanted;
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
