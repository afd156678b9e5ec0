// Keeps the leadership of etcd away from nodes that hold shared addresses, as far as another voting
// member can lead, so that the loss of one node costs the cluster only one of the two.
//
// If the holder's node leads etcd as well, a new holder has to wait for the election of a leader
// and then for the holder's whole lease again, because a new leader does not know when a lease was
// renewed. If another node leads, the lease ends while etcd works; and if the leader's node is
// lost, the holder keeps its key and renews it through the next leader.
//
// The leadership moves only to a member that answers, follows the local member and has its log, and
// only while no member is away or about to be, and no members are changed (membership-lock.h): the
// next leader might be the member that goes, and a check of the members that meets the change of
// leaders would take one for unhealthy. If the leadership comes back, because the other member
// cannot keep it, the next move follows later and later.
//
// A move takes some milliseconds; clients of etcd may have to repeat a request. Nothing has to be
// remembered: after a crash the next process reads etcd again.
#pragma once

#include "common/base/backoff.h"
#include "etcd-supervisor/membership/cluster-view.h"

namespace talos::supervisor {

// Returns the member that should lead instead of the local one; nullptr if the local member does
// not lead, its node holds no address, or no member is better. `holders`: the names of the nodes
// that hold addresses. Pure.
kj::Maybe<const ObservedMember&> betterLeader(const ObservedCluster& observed,
                                              kj::ArrayPtr<const kj::String> holders);

class LeaderPlacement {
 public:
  explicit LeaderPlacement(Dependencies& deps);
  KJ_DISALLOW_COPY_AND_MOVE(LeaderPlacement);

  // Moves the leadership if another member should lead, a minute after the last move at the
  // earliest. `observed` is a look from just now, and must outlive the promise.
  kj::Promise<void> settle(const ObservedCluster& observed);

 private:
  Dependencies& deps;
  Backoff pauses;
  kj::Maybe<kj::TimePoint> next;  // earliest time of the next move; nullptr before the first one

  kj::Promise<void> move(const etcd::Member& to);
};

}  // namespace talos::supervisor
