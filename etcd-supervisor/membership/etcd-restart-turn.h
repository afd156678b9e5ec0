// A member's turn to have its etcd restarted, because it is to run in another way than it does: a
// change of the config changes all members at about the same time.
//
// One at a time in the whole cluster, while nobody is away for a reboot and no member is added or
// removed, and only when the others have a quorum without it. The turn ends when the member answers
// again as it should, which those who come next see for themselves; or after a while, and then they
// are refused as long as it is ill. A crash of this process ends it with the leases.
#pragma once

#include "common/etcd/etcd-mutex.h"
#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

class Rerun {
 public:
  Rerun(Edges& edges, Here& here, View& view) : edges(edges), here(here), view(view) {}
  KJ_DISALLOW_COPY_AND_MOVE(Rerun);

  // The turn, which is given back when etcd has been started. FailedPrecondition when the others
  // need this member, DeadlineExceeded naming whose turn it is, Conflict while its last one is not
  // over. `known`: addresses of other members.
  kj::Promise<kj::Own<void>> take(kj::ArrayPtr<const kj::String> known);

  // Why etcd does not run yet as the config wants; empty when it is not tried now.
  kj::StringPtr waits() const { return edges.timer.now() < until ? kj::StringPtr(why) : ""_kj; }

 private:
  struct Held {
    kj::Own<etcd::Mutex> away, members;
    kj::Own<etcd::Mutex::Lock> awayLock, membersLock;
  };
  class Turn;

  Edges& edges;
  Here& here;
  View& view;
  kj::String why;
  kj::TimePoint until = kj::origin<kj::TimePoint>();
  bool asking = false;
  Held attempt;
  kj::Maybe<Held> held;
  kj::Promise<void> ending = nullptr;

  void say(kj::StringPtr text);
  kj::Promise<bool> isNeeded(etcd::Etcd& through);
  kj::Promise<kj::Own<void>> takeLocks(etcd::Etcd& through);
  void end();
  kj::Promise<void> endWhenWell();
};

}  // namespace talos::supervisor
