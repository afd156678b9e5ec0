// The names and addresses of the cluster's control-plane nodes; no other machine gets a certificate
// for any of them (root-secrets-controller.h).
//
// They are the members of etcd, the control-plane nodes in Kubernetes, and those that were known
// before. The latter are kept on STATE, since after a boot trustd gets requests long before etcd or
// Kubernetes answers. When Kubernetes has listed its nodes, all but these and etcd's members are
// forgotten. The file (mode 0600) is written atomically when the list has changed, so a crash or a
// power cut leaves the previous list or the new one. A file that cannot be read, or that is not
// such a list, is logged and counts as missing: then the nodes are not known until etcd or
// Kubernetes answers. On a node without a STATE the list is only in memory.
#pragma once

#include <kj/function.h>
#include <kj/vector.h>

#include "machined/process1/uv-loop.h"
#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kControlPlaneNodesFile = "/system/state/control-plane-nodes"_kj;

class ControlPlaneNodes {
 public:
  struct Dependencies {
    UvLoop& uv;
    kj::Function<bool()> isMounted;  // STATE
    kj::StringPtr file = kControlPlaneNodesFile;
  };
  explicit ControlPlaneNodes(Dependencies d) : deps(kj::mv(d)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ControlPlaneNodes);

  // Returns the hosts sorted, each once; nullptr while they are not known. The result is valid
  // until the next call. A controller that calls this has Members, EtcdMembers and MountStatuses as
  // inputs.
  kj::Promise<kj::Maybe<kj::ArrayPtr<const kj::String>>> get(Store& store);

 private:
  Dependencies deps;
  kj::Vector<kj::String> known;
  bool loaded = false, stored = true;  // the file has been read; the file has what is known

  kj::Promise<void> load();
  kj::Promise<void> keep();
};

}  // namespace talos::machined
