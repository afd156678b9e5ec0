// The pods and containers of the node, as the API lists them. Read when asked for; nothing is kept.
//
// A row of a pod is shown as namespace/pod, its containers as namespace/pod:container. Only pods
// that are ready, and their containers. Containers of the node itself have their own id, and those
// without a task are not shown.
#pragma once

#include <kj/vector.h>

#include "machined/services/containers/containerd-connection.h"

namespace talos::machined {

struct ContainerFact {
  kj::String nameSpace, id, image, status;
  kj::String pod;  // the id of the pod that it belongs to or is; empty for the node's own
  kj::String key;  // by which containerd knows it
  uint32_t pid = 0;
  uint32_t attempt = 0;  // how often it was made before, in its pod
  bool isPod = false;
};
struct ContainerUse {
  kj::String nameSpace, id, pod;
  uint64_t memoryBytes = 0, cpuNanoseconds = 0;
};

// Sorted by pod, each before its containers, and by id.
kj::Promise<kj::Vector<ContainerFact>> systemContainers(Containerd& containerd);
kj::Promise<kj::Vector<ContainerFact>> podContainers(Containerd& containerd);
// Of pods and their containers: the working set; those without figures are left out. A pod has what
// its containers use together: the CRI counts them, and the container that holds its namespaces is
// none of them.
kj::Promise<kj::Vector<ContainerUse>> podUse(Containerd& containerd);

// The file into which the container's output goes. NotFound for an unknown id; a pod has none.
kj::Promise<kj::String> podLogFile(Containerd& containerd, kj::String id);

// SIGTERM to a container of the node; a container of a pod is stopped with 10 s of grace, and so is
// a whole pod: who runs it (the kubelet, the service) starts it again. NotFound.
kj::Promise<void> endSystemContainer(Containerd& containerd, kj::String id);
kj::Promise<void> endPodContainer(Containerd& containerd, kj::String id);

// Stops all ready pods, those with a network of their own first, so that it can be taken down while
// the node's is there; the others after them. A pod that cannot be stopped is reported to `failed`
// and does not keep the others. Nothing to do when containerd does not run.
kj::Promise<void> stopPods(Containerd& containerd, kj::Function<void(kj::StringPtr)> failed);

}  // namespace talos::machined
