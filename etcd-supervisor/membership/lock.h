// One change of members at a time in the whole cluster: a mutex in its etcd. Who crashes with it
// loses it when its lease ends; what it has asked for may have been done.
#pragma once

#include "etcd-supervisor/membership/here.h"

namespace talos::supervisor {

// Does `work` while it holds the mutex, kept by `through`. Says who is waited for. When the mutex
// is lost `work` is dropped, and this rejects.
kj::Promise<void> underLock(Edges& edges, Here& here, etcd::Etcd& through, kj::StringPtr holder,
                            kj::Function<kj::Promise<void>()> work);

}  // namespace talos::supervisor
