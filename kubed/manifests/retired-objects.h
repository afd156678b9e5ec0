// Removes objects that the manifests of earlier releases created and those of this release do not:
// bindings of rights that are not needed. A cluster that was made with them would keep them for
// ever, because an object stays when its manifest is removed.
//
// Only a binding of this name, role and subject is removed: a binding that an administrator has
// made again for others is left. Can be repeated after any failure.
#pragma once

#include "common/kube/kube-client.h"

namespace talos::kubed {

// Calls `removed` with the name of each removed binding.
kj::Promise<void> removeRetired(kube::KubeClient& kubernetes,
                                kj::Function<void(kj::StringPtr)> removed);

}  // namespace talos::kubed
