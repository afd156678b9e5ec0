// k8s.ManifestController: controlplane/Manifests, the manifests with which a cluster begins, on a
// control-plane node. They are made from kcpc/system-manifests and the id of the bootstrap token,
// and exist as long as these do. kubed creates the objects (kubed/manifests). After a crash of the
// brain they are made again, with the same content.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/kubernetes/manifests/bootstrap-manifests.h"

namespace talos::machined {

// Not in the table of machined/config/controllers, which is a lower layer.
kj::Own<Controller> manifestController(ControllerDependencies& deps);

// Returns the manifests that a node with this config would have; empty for a worker. Pure.
kj::Vector<BootstrapManifest> manifestsOf(config::Config::Reader config);

}  // namespace talos::machined
