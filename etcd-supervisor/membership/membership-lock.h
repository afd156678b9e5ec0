// Mutexes in the cluster's etcd for what one node does at a time in the whole cluster. A node that
// crashes with one loses it when its lease expires; its last request may have taken effect.
#pragma once

#include "common/etcd/etcd-mutex.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

enum class Exclusive {
  kMembers,  // changes of members
  kAway,     // being away for a restart
};

kj::Own<etcd::Mutex> mutexFor(Exclusive what, Dependencies& deps, etcd::Etcd& through,
                              kj::StringPtr holder);

// Waits 60 s at most, for kAway 75, then DeadlineExceeded. `say` is called with the holder's name.
kj::Promise<kj::Own<etcd::Mutex::Lock>> lockFor(Exclusive what, etcd::Mutex& mutex,
                                                kj::Function<void(kj::String)> say);

// Does `work` while it holds the mutex of changes of members, kept by `through`. Publishes whose
// release it waits for. When the mutex is lost `work` is dropped, and this rejects.
kj::Promise<void> underLock(Dependencies& deps, LocalMember& self, etcd::Etcd& through,
                            kj::StringPtr holder, kj::Function<kj::Promise<void>()> work);

}  // namespace talos::supervisor
