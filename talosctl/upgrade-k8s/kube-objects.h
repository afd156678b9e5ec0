// Reads Kubernetes' objects for an upgrade. Pure; a field that is missing or of another type counts
// as empty.
#pragma once

#include "common/kube/json.h"
#include "talosctl/upgrade-k8s/upgrade-run.h"

namespace talos::talosctl {

// Returns name, address, kind and kubelet of a Node, without images. FailedPrecondition if it has
// no InternalIP.
NodeState readNode(const kube::Json& node);
KubeletState readKubelet(const kube::Json& node);
// Returns the value of the condition Ready.
bool isReady(const kube::Json& object);
PodState readPod(const kube::Json& pod);
DaemonSetState readDaemonSet(const kube::Json& daemonSet);
// Returns the image of the container kube-proxy. FailedPrecondition if there is no such container.
kj::String proxyImageOf(const kube::Json& daemonSet);
// Returns a strategic merge patch that sets this image.
kube::Json proxyImagePatch(kj::StringPtr image);

}  // namespace talos::talosctl
