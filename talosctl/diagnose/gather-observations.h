// Collects all input of `talosctl diagnose`, from all nodes at once.
//
// The nodes are those of -n, otherwise those of the talosconfig and every other node that the
// cluster names: etcd's members and the nodes of Kubernetes, including nodes that are down. While
// Kubernetes does not answer, its nodes are replaced by the nodes that hold certificates from
// trustd and answer. Nothing on a node is changed; every request has a deadline.
#pragma once

#include <capnp/message.h>

#include "rpc/diagnosis.capnp.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Fails only if there is no talosconfig, or if a flag is wrong.
kj::Promise<kj::Own<capnp::MallocMessageBuilder>> gatherObservations(Invocation& call);

}  // namespace talos::talosctl
