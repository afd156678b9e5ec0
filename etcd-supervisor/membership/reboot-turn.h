// A member's turn to be away for a restart: one at a time in the whole cluster, by a mutex in its
// etcd (spec kubernetes.md §6).
//
// Who has it and restarts keeps it until its lease ends, a minute after it is gone; who asks next
// finds it back, or ill, and is refused. A crash is a restart. One that does not come gives the
// turn back after a while.
#pragma once

#include "common/etcd/etcd-mutex.h"
#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

class Restart {
 public:
  Restart(Edges& edges, Here& here, View& view) : edges(edges), here(here), view(view) {}
  KJ_DISALLOW_COPY_AND_MOVE(Restart);

  // Resolves when this node may restart: it has the turn, and the others can do without it.
  // FailedPrecondition when they cannot, or while it is asked already; DeadlineExceeded naming
  // whose turn it is. A member that does not work is away already: only the others are asked.
  kj::Promise<void> take(kj::ArrayPtr<const kj::String> known);
  // It stays after all: another one may. Without a turn there is nothing to do.
  void giveBack();

 private:
  Edges& edges;
  Here& here;
  View& view;
  kj::String holder;                      // what this node is called there
  kj::Maybe<kj::Own<etcd::Mutex>> mutex;  // kept by the local member
  kj::Maybe<kj::Own<etcd::Mutex::Lock>> turn;
  kj::Promise<void> end = nullptr;  // of the turn
};

}  // namespace talos::supervisor
