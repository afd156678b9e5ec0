// Keeps the leadership of etcd away from nodes that hold shared addresses, as far as another voting
// member can lead, so that the loss of one node costs the cluster only one of the two.
//
// If the holder's node leads etcd as well, a new holder has to wait for the election of a leader
// and then for the holder's whole lease again, because a new leader does not know when a lease was
// renewed. If another node leads, the lease ends while etcd works; and if the leader's node is
// lost, the holder keeps its key and renews it through the next leader.
//
// The leadership moves only to a member that answers, follows the local member and has its log. A
// move takes some milliseconds; clients of etcd may have to repeat a request. Nothing has to be
// remembered: after a crash the next process reads etcd again.
#pragma once

#include "etcd-supervisor/membership/cluster-view.h"

namespace talos::supervisor {

// Returns the member that should lead instead of the local one; nullptr if the local member does
// not lead, its node holds no address, or no member is better. `holders`: the names of the nodes
// that hold addresses. Pure.
kj::Maybe<const ObservedMember&> betterLeader(const ObservedCluster& observed,
                                              kj::ArrayPtr<const kj::String> holders);

class LeaderPlacement {
 public:
  explicit LeaderPlacement(Dependencies& deps) : deps(deps) {}
  KJ_DISALLOW_COPY_AND_MOVE(LeaderPlacement);

  // Moves the leadership if another member should lead, at most once in a minute. `observed` is a
  // look from just now, and must outlive the promise.
  kj::Promise<void> settle(const ObservedCluster& observed);

 private:
  Dependencies& deps;
  kj::Maybe<kj::TimePoint> moved;
};

}  // namespace talos::supervisor
