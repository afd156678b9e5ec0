// A member's turn to have its etcd restarted with other arguments: a change of the config changes
// all members at about the same time.
//
// One member at a time in the whole cluster has a turn, while no node is away for a reboot and no
// member is added or removed, and only if the others have a quorum without it. Before the turn
// begins, the peer URL of the member is made that of the config (peer-url.h), after another member
// has become the leader; without a turn, too, if no other member depends on this one. The turn ends
// when the member is healthy again, which the next member checks itself; or after a while, and then
// the next member is refused as long as this one is not healthy. A crash of this process ends the
// turn with its leases. An etcd that is to get the proxy (member-search.h) needs no turn while
// there is no quorum.
#pragma once

#include "common/etcd/etcd-mutex.h"
#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

class EtcdRestart {
 public:
  EtcdRestart(Dependencies& deps, LocalMember& self, ClusterView& view)
      : deps(deps), self(self), view(view) {}
  KJ_DISALLOW_COPY_AND_MOVE(EtcdRestart);

  // Returns the turn; the caller drops it when etcd has been started. Fails with FailedPrecondition
  // if the others need this member, with DeadlineExceeded naming the holder of the turn, with
  // Conflict while this member's last turn has not ended. `known`: addresses of other members.
  kj::Promise<kj::Own<void>> take(kj::ArrayPtr<const kj::String> known);

  // Returns the error that keeps etcd from running as the config says; empty if no turn is
  // requested now.
  kj::StringPtr waits() const { return deps.timer.now() < until ? kj::StringPtr(message) : ""_kj; }

 private:
  struct Held {
    kj::Own<etcd::Mutex> away, members;
    kj::Own<etcd::Mutex::Lock> awayLock, membersLock;
  };
  class Turn;

  Dependencies& deps;
  LocalMember& self;
  ClusterView& view;
  kj::String message;
  kj::TimePoint until = kj::origin<kj::TimePoint>();
  bool asking = false;
  Held attempt;
  kj::Maybe<Held> held;
  kj::Promise<void> ending = nullptr;

  void say(kj::StringPtr text);
  kj::Promise<kj::Own<void>> takeLocks(etcd::Etcd& through, const Config& config,
                                       etcd::MemberId own);
  kj::Promise<void> stopLeading(etcd::Etcd& through, const Config& config, etcd::MemberId own);
  void end();
  kj::Promise<void> endWhenWell();
};

}  // namespace talos::supervisor
