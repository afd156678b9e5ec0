// Reads Kubernetes' objects for an upgrade. Pure; a field that is absent or of another type is
// empty.
#pragma once

#include "common/kube/json.h"
#include "talosctl/upgrade-k8s/upgrade-run.h"

namespace talos::talosctl {

// Name, address, kind and kubelet of a Node; images are not in it. FailedPrecondition for one
// without an InternalIP.
NodeState readNode(const kube::Json& node);
KubeletState readKubelet(const kube::Json& node);
// By its condition Ready.
bool isReady(const kube::Json& object);
PodState readPod(const kube::Json& pod);
DaemonSetState readDaemonSet(const kube::Json& daemonSet);
// Of its container kube-proxy. FailedPrecondition if there is none.
kj::String proxyImageOf(const kube::Json& daemonSet);
// A strategic merge patch that sets it.
kube::Json proxyImagePatch(kj::StringPtr image);

}  // namespace talos::talosctl
