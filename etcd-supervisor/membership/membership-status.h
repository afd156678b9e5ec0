// Publishes the state of this node's membership: EtcdStatuses/etcd and EtcdMembers. After a crash
// the status of the process before stays until the next one is published.
#pragma once

#include "common/base/waits.h"
#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/etcd-restart-turn.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

class MembershipStatus {
 public:
  // All arguments must outlive it.
  MembershipStatus(Dependencies& deps, LocalMember& self, const EtcdRestart& restart)
      : deps(deps), self(self), restart(restart) {}
  KJ_DISALLOW_COPY_AND_MOVE(MembershipStatus);

  // Returns the phase of this node; notes the time when the phase changes, and wakes the reconciler
  // then.
  Phase findPhase();
  // Publishes the cluster as last observed. `observed` must outlive the promise.
  kj::Promise<void> publish(const ObservedCluster& observed);

 private:
  Dependencies& deps;
  LocalMember& self;
  const EtcdRestart& restart;
  kj::Maybe<Phase> phase;
  kj::String since;  // start of the phase
  // Message of the wait, for an operator who examines this program.
  kj::String waitText;
  kj::Maybe<Wait> wait;

  Status statusOf(const ObservedCluster& observed) const;
  void showWait(const Status& status);
};

}  // namespace talos::supervisor
