// The files that a local cluster runs as root: QEMU's tree, and the image, kernel and initramfs.
//
// A file or tree that the user named is used as it is. What nobody named is this build's, and is
// checked each time that the cluster starts, for the build's folder may have changed hands since.
#pragma once

#include <kj/array.h>
#include <sys/types.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

// Sets the tree of QEMU for one run of this cluster; the result is not to be saved. `build`: the
// folder that holds image/ (program-tree.h). Throws PermissionDenied naming a file that nobody
// named and that others than the owners can change, NotFound when there is no QEMU for a virtual
// machine.
void prepareRun(rpc::LocalCluster::Builder cluster, kj::StringPtr build,
                kj::ArrayPtr<const uid_t> owners);

}  // namespace talos::cluster
