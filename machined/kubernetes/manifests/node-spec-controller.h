// k8s.NodeSpecController: controlplane/NodeSpecs[node], the configured state of this node's object
// in Kubernetes, which kubed applies: machine.nodeLabels, nodeAnnotations and nodeTaints, and for a
// control-plane node its role and whether workloads are kept away. For a worker with the labels
// that no kubelet may set on itself: kubed reports those that the object lacks.
//
// A config that was stored by an earlier release may have names that are reserved now
// (common/base/reserved-names.h): they are left out, and listed with the cause.
#pragma once

#include "common/config/kubernetes/kubernetes-images.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {

// Fills the record. Pure. `version`: of Kubernetes.
void fillNodeSpec(rpc::NodeSpecSpec::Builder out, config::Config::Reader config,
                  kj::StringPtr nodename, config::KubernetesVersion version);

kj::Own<Controller> nodeSpecController(ControllerDependencies& deps);

}  // namespace talos::machined
