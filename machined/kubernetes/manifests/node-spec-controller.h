// k8s.NodeSpecController: controlplane/NodeSpecs[node], what the config wants of the object that
// this node has in Kubernetes, and kubed makes so: machine.nodeLabels, machine.nodeTaints, and of a
// control-plane node its role and whether workloads are kept away. Of a worker without the labels
// that no kubelet may give itself.
#pragma once

#include "common/config/kubernetes-images.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {

// Pure. `version`: of Kubernetes.
void fillNodeSpec(rpc::NodeSpecSpec::Builder out, config::Config::Reader config,
                  kj::StringPtr nodename, config::KubernetesVersion version);

kj::Own<Controller> nodeSpecController(ControllerDependencies& deps);

}  // namespace talos::machined
