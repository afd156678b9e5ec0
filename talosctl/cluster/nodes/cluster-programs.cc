#include "talosctl/cluster/nodes/cluster-programs.h"

#include "common/base/error.h"
#include "talosctl/cluster/machines/qemu-program.h"
#include "talosctl/cluster/nodes/cluster-plan.h"
#include "talosctl/cluster/processes/program-tree.h"

namespace talos::cluster {

void prepareRun(rpc::LocalCluster::Builder cluster, kj::StringPtr build,
                kj::ArrayPtr<const uid_t> owners) {
  auto unnamed = kj::str(build, "/image/");
  auto reader = cluster.asReader();
  for (kj::StringPtr path : {reader.getImage(), reader.getKernel(), reader.getInitramfs()}) {
    if (!path.startsWith(unnamed)) continue;
    KJ_IF_MAYBE (error, pathError(path, owners)) {
      fail(ErrorKind::kPermissionDenied,
           kj::str("cannot use ", path, ", which root runs: ", *error));
    }
  }
  if (hasVirtualMachines(cluster)) cluster.setQemuRoot(findQemu(reader.getQemuRoot()).root);
}

}  // namespace talos::cluster
