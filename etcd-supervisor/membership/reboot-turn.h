// A member's turn to be away for a reboot: one at a time in the whole cluster, by a mutex in its
// etcd.
//
// A node that has the turn and reboots keeps it until its member is healthy again, or until its
// lease expires: a minute after the node has gone, and another minute after each change of etcd's
// leader. The next node that requests the turn finds the member back, or not healthy, and is then
// refused. The lease is in the intent, so the node knows it after the reboot; a mere restart of
// this process forgets it, because the reboot may still come. A crash counts as a reboot. A node
// that does not reboot gives the turn back after a while.
//
// Minutes may pass between the turn and the reboot, in which another member may fail, and the lease
// may expire because this process was restarted. So a node takes its turn again right before it
// goes: that keeps the turn if the node still has it, and checks the others again.
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

  // Takes the turn, or keeps the one that this node has. Resolves when this node may reboot: it has
  // the turn, and the others can do without it. After an error it has no turn. Fails with
  // FailedPrecondition if they cannot, or while another call requests the turn; with
  // DeadlineExceeded naming the holder of the turn. A member that does not work is away already:
  // then only the others are checked.
  kj::Promise<void> take(kj::ArrayPtr<const kj::String> known);
  // Gives the turn back because the node does not reboot after all: another one may. Does nothing
  // without a turn.
  void giveBack();
  // Ends the turn of a completed reboot, because the local member is healthy.
  void memberIsWell();

 private:
  // The lock of this node.
  struct Turn {
    explicit Turn(kj::Own<etcd::Mutex::Lock> taken)
        : lock(kj::mv(taken)),
          ending(lock->lost()
                     .catch_([this](kj::Exception&&) { isLost = true; })
                     .eagerlyEvaluate(nullptr)) {}
    kj::Own<etcd::Mutex::Lock> lock;
    bool isLost = false;  // its lease has ended
    kj::Promise<void> ending;
  };

  Dependencies& deps;
  LocalMember& self;
  ClusterView& view;
  kj::String holder;                      // name of this node in the mutex
  kj::Maybe<kj::Own<etcd::Mutex>> mutex;  // served by the local member
  kj::Maybe<kj::Own<Turn>> turn;
  kj::Promise<void> end = nullptr;  // end of the turn
  bool endsLast = false;
  kj::Promise<void> lastEnd = nullptr;  // end of the turn before the reboot

  kj::Promise<kj::Own<Turn>> lockOrKeep(const Config& config);
  kj::Promise<void> endLast(etcd::LeaseId lease);
};

}  // namespace talos::supervisor
