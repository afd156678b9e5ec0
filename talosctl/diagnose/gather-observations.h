// Collects everything that `talosctl diagnose` looks at, from all nodes at once.
//
// The nodes are those of -n, else those of the talosconfig and every other one that the cluster
// names: etcd's members and the nodes of Kubernetes, those that are down included; while Kubernetes
// does not answer, in its place those that answer among the holders of certificates from trustd.
// Nothing on a node is changed; every question has a deadline.
#pragma once

#include <capnp/message.h>

#include "rpc/diagnosis.capnp.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Fails only when there is no talosconfig, or a flag is wrong.
kj::Promise<kj::Own<capnp::MallocMessageBuilder>> gatherObservations(Invocation& call);

}  // namespace talos::talosctl
