// Owns this node's membership: it publishes how etcd has to be run (EtcdSpecs) and the state of the
// cluster (EtcdStatuses, EtcdMembers), looks for a cluster to join, gets a learner promoted, and
// serves the requests of operators.
//
// Its only memory is the intent (plan/membership-intent.h) and the data of etcd. So it may die at
// any line: the next process reads both, asks the cluster, and continues.
#pragma once

#include "common/base/backoff.h"
#include "common/base/waits.h"
#include "etcd-supervisor/membership/cluster-bootstrap.h"
#include "etcd-supervisor/membership/cluster-join.h"
#include "etcd-supervisor/membership/cluster-leave.h"
#include "etcd-supervisor/membership/etcd-restart-turn.h"
#include "etcd-supervisor/membership/reboot-turn.h"

namespace talos::supervisor {

// The cluster as it would be when this node is away.
struct Outlook {
  kj::Vector<ObservedMember> members;  // none: it is in no cluster
  kj::Maybe<kj::String> objection;     // to its going
  etcd::MemberId leader = 0;
};

class MembershipReconciler {
 public:
  explicit MembershipReconciler(Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(MembershipReconciler);

  kj::Promise<void> run();  // never ends
  // A resource has changed: config, service.
  void wake() { self.changed.raise(); }

  kj::Promise<void> ready();
  // The health of the local member, asked now; rejects with the problem.
  kj::Promise<void> health();
  // `asker`: as of Peers::standing().
  BootstrapState bootstrapState(kj::StringPtr asker);
  kj::Promise<ObservedCluster> look();

  // True: there was a cluster before. Resolves when the local member is healthy.
  kj::Promise<bool> bootstrap(BootstrapRequest request);
  // The snapshot with which this node is to make a cluster cannot be unpacked; there is no data.
  // Resolves when the recovery is cancelled.
  kj::Promise<void> recoveryFailed(kj::StringPtr message);
  kj::Promise<void> leave(bool force);  // resolves when the data is gone
  kj::Promise<Outlook> outlook(Going going);
  // Resolves when the node is no member any more, or, if it restarts, has its turn to be away. Does
  // nothing in no cluster.
  kj::Promise<void> withdraw(Going going, bool force);
  void stay();  // it does not restart after all: another member may
  // As of EtcdRestart::take().
  kj::Promise<kj::Own<void>> rerun();
  kj::Promise<void> removeMember(kj::String member, bool force);
  kj::Promise<kj::String> forfeitLeadership();
  // A member that answers, the local one if it does. Unavailable without one.
  kj::Promise<etcd::Etcd*> anyMember();
  // FailedPrecondition as long as the node is in no cluster.
  etcd::Etcd& localMember();
  // For what a snapshot must not bring back: FailedPrecondition as well until that has ended.
  etcd::Etcd& settledMember();

 private:
  Dependencies deps;
  LocalMember self;
  ClusterView view;
  Bootstrap bootstrap_;
  Join join;
  Leave leave_;
  RebootTurn reboot;
  EtcdRestart etcdRestart;
  ObservedCluster observed;  // the last look
  Signal looked;             // there is a new one
  bool everLooked = false;
  kj::Maybe<kj::String> unrecovered;  // why the last recovery has failed
  bool publishedOther = false;  // machined was, of how etcd is to be run, than publishSpecs() did
  kj::Maybe<Phase> phase;
  kj::String since;              // of the phase
  kj::Vector<kj::String> hosts;  // of members, as last seen
  Backoff searching, promoting;
  kj::Maybe<kj::TimePoint> searchesSince;

  kj::Promise<void> publishSpecs();
  kj::Promise<void> move();
  kj::Promise<void> watch();
  kj::Promise<kj::Duration> step();
  kj::Promise<kj::Duration> search();
  kj::Promise<kj::Duration> promote();
  kj::Promise<kj::Duration> settleLeaving();
  kj::Promise<kj::Duration> purge();
  kj::Promise<void> makeBySelf(kj::ArrayPtr<const Asked> asked);
  kj::Promise<kj::Vector<kj::String>> knownHosts();
  kj::String withSpace(kj::String problem);
  void settle();
  kj::Promise<void> followUpRecovery();
  Phase findPhase();
  kj::Promise<bool> isCounted();
  kj::Promise<void> publish();
  kj::Promise<void> publishStatus();
  Status status() const;

  // Its message, for who looks at this program.
  kj::String waitText;
  kj::Maybe<Wait> wait;
  void showWait(const Status& status);
};

}  // namespace talos::supervisor
