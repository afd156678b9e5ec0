// The keeper of this node's membership: it publishes how etcd is to be run (EtcdSpecs) and how the
// cluster is (EtcdStatuses, EtcdMembers), looks for a cluster to join, sees a learner to its vote,
// and does what it is asked to.
//
// All that it must remember is the intent (plan/membership-intent.h) and the data of etcd. So it
// may die at any line: the next one reads both, asks the cluster, and goes on.
#pragma once

#include "common/base/backoff.h"
#include "etcd-supervisor/membership/cluster-bootstrap.h"
#include "etcd-supervisor/membership/cluster-join.h"
#include "etcd-supervisor/membership/cluster-leave.h"
#include "etcd-supervisor/membership/etcd-restart-turn.h"
#include "etcd-supervisor/membership/reboot-turn.h"

namespace talos::supervisor {

// What becomes of the cluster when this node goes.
struct Outlook {
  kj::Vector<SeenMember> members;   // none: it is in no cluster
  kj::Maybe<kj::String> objection;  // to its going
  etcd::MemberId leader = 0;
};

class Keeper {
 public:
  explicit Keeper(Edges edges);
  KJ_DISALLOW_COPY_AND_MOVE(Keeper);

  kj::Promise<void> run();  // never ends
  // Something outside has changed: config, service.
  void wake() { here.changed.raise(); }

  kj::Promise<void> ready();
  // Of the local member, asked now; rejects with what is wrong.
  kj::Promise<void> health();
  // `asker`: as of Peers::standing().
  Standing standing(kj::StringPtr asker);
  kj::Promise<Seen> look();

  // True: there was a cluster before. Resolves when the local member is healthy.
  kj::Promise<bool> bootstrap(BootstrapRequest request);
  // The snapshot with which this node is to make a cluster cannot be unpacked; there is no data.
  // Resolves when nothing wants it any more.
  kj::Promise<void> recoveryFailed(kj::StringPtr why);
  kj::Promise<void> leave(bool force);  // resolves when the data is gone
  kj::Promise<Outlook> outlook(Going going);
  // Resolves when the node is no member any more, or, if it restarts, has its turn to be away. In
  // no cluster it has nothing to do.
  kj::Promise<void> withdraw(Going going, bool force);
  void stay();  // it does not restart after all: another member may
  // As of Rerun::take().
  kj::Promise<kj::Own<void>> rerun();
  kj::Promise<void> removeMember(kj::String member, bool force);
  kj::Promise<kj::String> forfeitLeadership();
  // A member that answers, the local one if it does. Unavailable without one.
  kj::Promise<etcd::Etcd*> anyMember();
  // FailedPrecondition as long as the node is in no cluster.
  etcd::Etcd& localMember();

 private:
  Edges edges;
  Here here;
  View view;
  Bootstrap bootstrap_;
  Join join;
  Leave leave_;
  Restart restart;
  Rerun rerun_;
  Seen seen;      // the last look
  Signal looked;  // there is a new one
  bool everLooked = false;
  kj::Maybe<kj::String> unrecovered;  // why the last recovery has failed
  bool toldOtherwise = false;  // machined was, of how etcd is to be run, than publishSpecs() did
  kj::Maybe<Phase> phase;
  kj::String since;              // of the phase
  kj::Vector<kj::String> hosts;  // of members, as last seen
  Backoff searching, promoting;

  kj::Promise<void> publishSpecs();
  kj::Promise<void> move();
  kj::Promise<void> watch();
  kj::Promise<kj::Duration> step();
  kj::Promise<kj::Duration> search();
  kj::Promise<kj::Duration> promote();
  kj::Promise<kj::Duration> settleLeaving();
  kj::Promise<kj::Duration> purge();
  kj::Promise<void> makeBySelf();
  kj::Promise<kj::Vector<kj::String>> knownHosts();
  kj::String withSpace(kj::String problem);
  void settle();
  Phase findPhase();
  kj::Promise<bool> isCounted();
  kj::Promise<void> publish();
  kj::Promise<void> tell();
  Status status() const;
};

}  // namespace talos::supervisor
