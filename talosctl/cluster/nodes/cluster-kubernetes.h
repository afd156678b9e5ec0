// Waits until the Kubernetes of a new local cluster is healthy (talosctl/health), and merges an
// admin kubeconfig into the user's kubeconfig.
//
// The nodes' network is not the host's. So the kubeconfig names the loopback address that leads to
// the first control-plane node's API server (cluster-supervisor.h), and the name in the server's
// certificate.
#pragma once

#include "common/kube/received-kubeconfig.h"
#include "rpc/cluster.capnp.h"
#include "talosctl/cli/command.h"
#include "talosctl/kube/kubeconfig-file.h"

namespace talos::cluster {

// Rejects with DeadlineExceeded, with the check and its last state.
kj::Promise<void> waitForKubernetes(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                                    kj::StringPtr stateFolder, kj::Duration deadline);

// Turns the error of a kubeconfig that another program has locked into a warning: the cluster
// itself is up.
kj::Promise<talosctl::StoredKubeconfig> warnWhenLocked(
    kj::Promise<talosctl::StoredKubeconfig> storing, kj::Function<void(kj::StringPtr)> warn);

// Returns the first file of $KUBECONFIG, otherwise ~/.kube/config. InvalidArgument without a home
// directory.
kj::String userKubeconfig(talosctl::Invocation& call);
// Fetches a kubeconfig from the first control-plane node into the cluster's own files (0600), where
// its supervisor finds it.
kj::Promise<kube::ReceivedKubeconfig> keepKubeconfig(talosctl::Invocation& call,
                                                     rpc::LocalCluster::Reader cluster,
                                                     kj::StringPtr stateFolder);
// Merges it into the user's kubeconfig. An existing entry with the same name and another content
// causes a rename, which is printed on stderr.
kj::Promise<void> mergeUserKubeconfig(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                                      kube::ReceivedKubeconfig given, kj::String path);

}  // namespace talos::cluster
