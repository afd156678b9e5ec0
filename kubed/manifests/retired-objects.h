// Removes what the manifests of earlier releases created and those of this one do not: bindings of
// rights that nobody needs. A cluster that was made with them would keep them for ever, because a
// manifest that is no longer there removes nothing.
//
// Only a binding of that name, role and subject is removed: one that somebody has made anew for
// others is left. Can be repeated after any failure.
#pragma once

#include "common/kube/kube-client.h"

namespace talos::kubed {

// Calls `removed` with the name of each that was there.
kj::Promise<void> removeRetired(kube::KubeClient& kubernetes,
                                kj::Function<void(kj::StringPtr)> removed);

}  // namespace talos::kubed
