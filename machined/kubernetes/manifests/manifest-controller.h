// k8s.ManifestController: controlplane/Manifests, what a cluster begins with, of a control-plane
// node. Made of kcpc/system-manifests and of the id of the bootstrap token; there as long as they
// are. kubed creates the objects (kubed/manifests). After a crash of the brain they are made anew
// and come out the same.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/kubernetes/manifests/bootstrap-manifests.h"

namespace talos::machined {

// Not in the table of machined/config/controllers, which is below.
kj::Own<Controller> manifestController(ControllerDependencies& deps);

// The manifests that a node with this config would have; a worker has none. Pure.
kj::Vector<BootstrapManifest> manifestsOf(config::Config::Reader config);

}  // namespace talos::machined
