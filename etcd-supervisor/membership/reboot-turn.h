// A member's turn to be away for a reboot: one at a time in the whole cluster, by a mutex in its
// etcd.
//
// A node that has it and reboots keeps it until its member is well again, or until its lease
// expires, a minute after it is gone and another one after each change of etcd's leader: the next
// one that asks finds it back, or not healthy, and is refused. The lease is in the intent, so the
// node knows it after the reboot; a restart of this process alone forgets it, because the reboot
// may still come. A crash counts as a reboot. A node that does not reboot gives the turn back after
// a while.
#pragma once

#include "common/etcd/etcd-mutex.h"
#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

class RebootTurn {
 public:
  RebootTurn(Dependencies& deps, LocalMember& self, ClusterView& view)
      : deps(deps), self(self), view(view) {}
  KJ_DISALLOW_COPY_AND_MOVE(RebootTurn);

  // Resolves when this node may reboot: it has the turn, and the others can do without it.
  // FailedPrecondition when they cannot, or while another call asks for it; DeadlineExceeded naming
  // the holder of the turn. A member that does not work is away already: only the others are asked.
  kj::Promise<void> take(kj::ArrayPtr<const kj::String> known);
  // The node does not reboot after all: another one may. Does nothing without a turn.
  void giveBack();
  // The local member is well: the turn of a reboot that is over ends.
  void memberIsWell();

 private:
  Dependencies& deps;
  LocalMember& self;
  ClusterView& view;
  kj::String holder;                      // what this node is called there
  kj::Maybe<kj::Own<etcd::Mutex>> mutex;  // kept by the local member
  kj::Maybe<kj::Own<etcd::Mutex::Lock>> turn;
  kj::Promise<void> end = nullptr;  // of the turn
  bool endsLast = false;
  kj::Promise<void> lastEnd = nullptr;  // of the turn before the reboot

  kj::Promise<void> endLast(etcd::LeaseId lease);
};

}  // namespace talos::supervisor
