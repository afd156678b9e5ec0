// The files that a local cluster runs as root: QEMU's tree, and the image, kernel and initramfs.
//
// A file or tree that the user named is used unchecked. All other files belong to this build and
// are checked at each start of the cluster, because the owner of the build's folder may have
// changed since.
#pragma once

#include <kj/array.h>
#include <sys/types.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

// Sets the tree of QEMU for one run of this cluster; the result must not be saved. `build`: the
// folder that holds image/ (program-tree.h). Throws PermissionDenied if a file that the user did
// not name can be changed by others than the owners, and NotFound if there is no QEMU for a virtual
// machine.
void prepareRun(rpc::LocalCluster::Builder cluster, kj::StringPtr build,
                kj::ArrayPtr<const uid_t> owners);

}  // namespace talos::cluster
