// k8s.NodeSpecController: controlplane/NodeSpecs[node], what the config wants of the object that
// this node has in Kubernetes. On control-plane nodes, whose kubed makes it so: their role, whether
// workloads are kept away, machine.nodeLabels and machine.nodeTaints.
#pragma once

#include "common/config/kubernetes-images.h"
#include "machined/controllers/controller-parts.h"

namespace talos::machined {

// Pure. `version`: of Kubernetes.
void fillNodeSpec(rpc::NodeSpecSpec::Builder out, config::Config::Reader config,
                  kj::StringPtr nodename, config::KubernetesVersion version);

kj::Own<Controller> nodeSpecController(ControllerParts& parts);

}  // namespace talos::machined
