// What is done by one node at a time in the whole cluster: mutexes in its etcd. Who crashes with
// one loses it when its lease ends; what it has asked for may have been done.
#pragma once

#include "common/etcd/etcd-mutex.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

enum class Exclusive {
  kMembers,  // changes of members
  kAway,     // being away for a restart (spec kubernetes.md §6)
};

kj::Own<etcd::Mutex> mutexFor(Exclusive what, Edges& edges, etcd::Etcd& through,
                              kj::StringPtr holder);

// A minute at most, then DeadlineExceeded. `say` hears who is waited for.
kj::Promise<kj::Own<etcd::Mutex::Lock>> lockFor(Exclusive what, etcd::Mutex& mutex,
                                                kj::Function<void(kj::String)> say);

// Does `work` while it holds the mutex of changes of members, kept by `through`. Says who is waited
// for. When the mutex is lost `work` is dropped, and this rejects.
kj::Promise<void> underLock(Edges& edges, Here& here, etcd::Etcd& through, kj::StringPtr holder,
                            kj::Function<kj::Promise<void>()> work);

}  // namespace talos::supervisor
