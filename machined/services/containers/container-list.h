// The pods and containers of the node, as the API lists them. They are read for each call; no state
// is kept.
//
// A row of a pod is shown as namespace/pod, its containers as namespace/pod:container. Only pods
// that are ready, and their containers, are listed. Containers of the node itself have their own
// ID, and those without a task are not shown.
#pragma once

#include <kj/vector.h>

#include "machined/services/containers/containerd-connection.h"

namespace talos::machined {

struct ContainerFact {
  kj::String nameSpace, id, image, status;
  kj::String pod;  // the ID of the pod, or of the container's pod; empty for the node's containers
  kj::String key;  // containerd's ID
  uint32_t pid = 0;
  uint32_t attempt = 0;  // number of earlier instances in its pod
  bool isPod = false;
};
struct ContainerUse {
  kj::String nameSpace, id, pod;
  uint64_t memoryBytes = 0, cpuNanoseconds = 0;
};

// Returns the containers sorted by pod, each pod before its containers, and by ID.
kj::Promise<kj::Vector<ContainerFact>> systemContainers(Containerd& containerd);
kj::Promise<kj::Vector<ContainerFact>> podContainers(Containerd& containerd);
// Returns the use of pods and their containers, with the working set as memory; entries without
// figures are left out. A pod has the sum of its containers, as the CRI counts them; the container
// that holds the pod's namespaces is not among them.
kj::Promise<kj::Vector<ContainerUse>> podUse(Containerd& containerd);

// Returns the file with the container's output. Throws NotFound for an unknown ID; a pod has no
// file.
kj::Promise<kj::String> podLogFile(Containerd& containerd, kj::String id);

// Sends SIGTERM to a container of the node; stops a container of a pod, or a whole pod, with 10 s
// of grace. Its owner (the kubelet, the service) starts it again. Throws NotFound.
kj::Promise<void> endSystemContainer(Containerd& containerd, kj::String id);
kj::Promise<void> endPodContainer(Containerd& containerd, kj::String id);

// Stops all ready pods: first those with their own network, so that their network can be removed
// while the node's still exists, then the others. A pod that cannot be stopped is reported to
// `failed` and does not block the others. Does nothing if containerd does not run.
kj::Promise<void> stopPods(Containerd& containerd, kj::Function<void(kj::StringPtr)> failed);

}  // namespace talos::machined
