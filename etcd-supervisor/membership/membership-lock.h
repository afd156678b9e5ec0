// Mutexes in the cluster's etcd for work that only one node may do at a time in the whole cluster.
//
// A member must not leave while another one is about to be away, because together they may be a
// majority that the rest lacks. So the two kinds of work exclude each other, too: a node that has
// its turn to be away checks the others while it has the mutex of changes of members, and a node
// that leaves checks, while it has that mutex, that no other node has a turn, or waits for one.
//
// A node that crashes with a mutex loses it when its lease expires; its last request may have taken
// effect.
#pragma once

#include "common/etcd/etcd-mutex.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

enum class Exclusive {
  kMembers,  // changes of members
  kAway,     // absence for a restart
};

kj::Own<etcd::Mutex> mutexFor(Exclusive what, Dependencies& deps, etcd::Etcd& through,
                              kj::StringPtr holder);

// Waits at most 60 s, for kAway 75 s, then fails with DeadlineExceeded. `say` is called with the
// holder's name.
kj::Promise<kj::Own<etcd::Mutex::Lock>> lockFor(Exclusive what, etcd::Mutex& mutex,
                                                kj::Function<void(kj::String)> say);

// Returns true if a node has one of the mutexes, or waits for it: members are changing, or a member
// is away or about to be.
kj::Promise<bool> isAnyLocked(etcd::Etcd& through);

// Returns the name of another node than `own` that has, or waits for, its turn to be away; nullptr
// if no other node does.
kj::Promise<kj::Maybe<kj::String>> whoGoesAway(etcd::Etcd& through, kj::StringPtr own);

// Does `work` while it holds the mutex of changes of members, which `through` serves. Publishes the
// name of the holder for which it waits. If the mutex is lost, `work` is dropped and this rejects.
kj::Promise<void> underLock(Dependencies& deps, LocalMember& self, etcd::Etcd& through,
                            kj::StringPtr holder, kj::Function<kj::Promise<void>()> work);

}  // namespace talos::supervisor
