// What an upgrade reads of Kubernetes' objects. Pure; absent or of another type: empty.
#pragma once

#include "common/kube/json.h"
#include "talosctl/upgrade-k8s/upgrade-run.h"

namespace talos::talosctl {

// Name, address, kind and kubelet of a Node; images are not in it. FailedPrecondition for one
// without an InternalIP.
SeenNode readNode(const kube::Json& node);
SeenKubelet readKubelet(const kube::Json& node);
SeenPod readPod(const kube::Json& pod);
SeenDaemonSet readDaemonSet(const kube::Json& daemonSet);
// Of its container kube-proxy. FailedPrecondition if there is none.
kj::String proxyImageOf(const kube::Json& daemonSet);
// A strategic merge patch that sets it.
kube::Json proxyImagePatch(kj::StringPtr image);

}  // namespace talos::talosctl
