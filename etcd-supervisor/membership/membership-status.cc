#include "etcd-supervisor/membership/membership-status.h"

#include "common/base/date.h"
#include "common/base/node-messages.h"
#include "etcd-supervisor/membership/etcd-spec.h"

namespace talos::supervisor {

Phase MembershipStatus::findPhase() {
  auto now = self.phase();
  if (phase == nullptr || KJ_ASSERT_NONNULL(phase) != now) {
    since = dateText(deps.clock.now());
    phase = now;
    self.changed.raise();
  }
  return now;
}

Status MembershipStatus::statusOf(const ObservedCluster& observed) const {
  constexpr kj::StringPtr kNames[] = {"waiting"_kj, "waiting"_kj, "bootstrapping"_kj, "joining"_kj,
                                      "member"_kj,  "leaving"_kj, "left"_kj};
  Status status;
  auto now = KJ_ASSERT_NONNULL(phase);
  status.phase = kNames[static_cast<size_t>(now)];
  if (self.leaves() && now != Phase::kLeft) status.phase = "leaving"_kj;
  bool empty = now == Phase::kWaiting || now == Phase::kLeft;
  if (empty && self.claims()) status.phase = "bootstrapping"_kj;
  status.changed = kj::str(since);
  status.message = kj::str(self.message().size() > 0 ? self.message() : restart.waits());
  if (now == Phase::kDamaged && !self.leaves()) {
    status.message = kj::str(messages::kWaitingFor, kLostLog);
  }
  KJ_IF_MAYBE (local, observed.local) {
    status.member = hex(local->member);
    if (local->learner) status.phase = "learner"_kj;
  }
  KJ_IF_MAYBE (leader, observed.leader()) status.leader = kj::str(leader->member.name);
  auto votes = votesOf(observed.probes());
  status.voters = votes.voters;
  status.tolerates = votes.tolerates();
  bool runs = now == Phase::kMember || now == Phase::kBootstrapping;
  bool full = now == Phase::kJoining && observed.problem.startsWith("the disk of ");
  if ((runs && status.message.size() == 0) || full) status.message = kj::str(observed.problem);
  if (now == Phase::kMember && observed.certain && observed.local == nullptr) {
    bool listed = false;
    for (auto& one : observed.members) listed |= one.isLocal;
    if (!listed) {
      status.message = kj::str(messages::kRemovedByOthers,
                               "; run talosctl etcd leave on this node, and "
                               "reboot it to join again");
    }
  }
  status.alarms = KJ_MAP(alarm, observed.alarms) {
    auto name = hex(alarm.member);
    KJ_IF_MAYBE (member, observed.find(alarm.member)) name = describe(member->member);
    return kj::str(name, ": ", alarm.type == etcd::Alarm::Type::kNoSpace ? "NOSPACE" : "CORRUPT");
  };
  return status;
}

// Lists the wait with the time when it began, not when it was published again.
void MembershipStatus::showWait(const Status& status) {
  auto text = status.message.size() > 0 ? kj::str(status.phase, ": ", status.message) : kj::str();
  if (text == waitText) return;
  waitText = kj::mv(text);
  wait = nullptr;
  if (waitText.size() > 0) wait = Wait(waitText);
}

kj::Promise<void> MembershipStatus::publish(const ObservedCluster& observed) {
  findPhase();
  auto members = KJ_MAP(one, observed.members) {
    return clone(one.member);
  };
  bool leaving = self.leaves();
  auto now = statusOf(observed);
  showWait(now);
  co_await deps.store.publish(now, members);
  if (leaving) self.leavingPublished();
}

}  // namespace talos::supervisor
