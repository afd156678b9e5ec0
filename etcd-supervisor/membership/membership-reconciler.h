// Owns this node's membership: publishes how etcd has to be run (etcd-spec.h) and the state of the
// cluster (EtcdStatuses, EtcdMembers), looks for a cluster to join, gets a learner promoted, keeps
// the leadership away from holders of shared addresses (leader-placement.h), and serves the
// requests of operators.
//
// Its only memory is the intent (plan/membership-intent.h) and the data of etcd. So it may die at
// any line: the next process reads both, queries the cluster, and continues.
#pragma once

#include "common/base/backoff.h"
#include "etcd-supervisor/membership/cluster-bootstrap.h"
#include "etcd-supervisor/membership/cluster-join.h"
#include "etcd-supervisor/membership/cluster-leave.h"
#include "etcd-supervisor/membership/etcd-spec.h"
#include "etcd-supervisor/membership/leader-placement.h"
#include "etcd-supervisor/membership/member-search.h"
#include "etcd-supervisor/membership/membership-status.h"
#include "etcd-supervisor/membership/peer-url.h"
#include "etcd-supervisor/membership/reboot-turn.h"

namespace talos::supervisor {

// State of the cluster if this node were away.
struct Outlook {
  kj::Vector<ObservedMember> members;  // empty if it is in no cluster
  kj::Maybe<kj::String> objection;     // to its departure
  etcd::MemberId leader = 0;
};

class MembershipReconciler {
 public:
  explicit MembershipReconciler(Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(MembershipReconciler);

  kj::Promise<void> run();  // never ends
  // Notes that a resource has changed: config, service.
  void wake() { self.changed.raise(); }

  kj::Promise<void> ready();
  // Queries the health of the local member now; rejects with the problem.
  kj::Promise<void> health();
  // `asker`: as in Peers::bootstrapState().
  BootstrapState bootstrapState(kj::StringPtr asker);
  kj::Promise<ObservedCluster> look();

  // Returns true if there was a cluster before. Resolves when the local member is healthy.
  kj::Promise<bool> bootstrap(BootstrapRequest request);
  // Reports that the snapshot with which this node is to make a cluster cannot be unpacked; there
  // is no data. Resolves when the recovery is cancelled.
  kj::Promise<void> recoveryFailed(kj::StringPtr message);
  // Removes this node from its cluster, and resolves when its data is deleted; DeadlineExceeded
  // when its etcd has not exited by then, which only delays the deletion.
  kj::Promise<void> leave(bool force);
  kj::Promise<Outlook> outlook(Going going);
  // Resolves when the node is not a member any more, or, if it restarts, has its turn to be away.
  // Does nothing if the node is in no cluster.
  kj::Promise<void> withdraw(Going going, bool force);
  void stay();  // for a node that does not restart after all: another member may
  // Does the same as EtcdRestart::take().
  kj::Promise<kj::Own<void>> rerun();
  kj::Promise<void> removeMember(kj::String member, bool force);
  kj::Promise<kj::String> forfeitLeadership();
  // Returns a member that answers, the local one if it does. Fails with Unavailable if none
  // answers.
  kj::Promise<etcd::Etcd*> anyMember();
  // Throws FailedPrecondition as long as the node is in no cluster.
  etcd::Etcd& localMember();
  // For data that a snapshot must not bring back: also throws FailedPrecondition until the recovery
  // has ended.
  etcd::Etcd& settledMember();

 private:
  Dependencies deps;
  LocalMember self;
  EtcdSpec spec;
  ClusterView view;
  Bootstrap bootstrap_;
  Join join;
  Leave leave_;
  PeerUrl peerUrl;
  MemberSearch search_;
  LeaderPlacement placement;
  RebootTurn reboot;
  EtcdRestart etcdRestart;
  MembershipStatus status;
  ObservedCluster observed;  // result of the last look
  Signal looked;             // there is a new look
  bool everLooked = false;
  kj::Maybe<kj::String> unrecovered;  // error of the last recovery, until the next bootstrap
  kj::Vector<kj::String> hosts;       // last known hosts of members
  Backoff searching, promoting;
  kj::Maybe<kj::TimePoint> searchesSince;

  kj::Promise<void> move();
  kj::Promise<void> watch();
  kj::Promise<kj::Duration> step();
  kj::Promise<kj::Duration> search();
  kj::Promise<kj::Duration> promote();
  kj::Promise<kj::Duration> settleLeaving();
  kj::Promise<kj::Duration> purge();
  kj::Promise<void> makeBySelf(kj::ArrayPtr<const PeerAnswer> asked);
  kj::Promise<kj::Vector<kj::String>> knownHosts();
  kj::String withSpace(kj::String problem);
  void settle();
  kj::Promise<void> followUpRecovery();
  kj::Promise<bool> isCounted();
  kj::Promise<void> publish();
};

}  // namespace talos::supervisor
