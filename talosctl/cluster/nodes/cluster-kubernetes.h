// Kubernetes of a new local cluster: waits until it is healthy (talosctl/health), and puts an admin
// kubeconfig into the user's.
//
// The nodes' network is not the host's. So the kubeconfig names the loopback address that leads to
// the first control-plane node's API server (cluster-supervisor.h), and the name that the server's
// certificate has.
#pragma once

#include "common/kube/received-kubeconfig.h"
#include "rpc/cluster.capnp.h"
#include "talosctl/cli/command.h"
#include "talosctl/kube/kubeconfig-file.h"

namespace talos::cluster {

// DeadlineExceeded with the check and what it waited for.
kj::Promise<void> waitForKubernetes(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                                    kj::StringPtr stateFolder, kj::Duration deadline);

// Changes a node's kubeconfig to reach the server at another host, by the name that its certificate
// has. Pure.
kube::ReceivedKubeconfig throughHost(kube::ReceivedKubeconfig kubeconfig, kj::StringPtr host);

// A kubeconfig that another program has locked is a warning: the cluster itself is up.
kj::Promise<talosctl::StoredKubeconfig> warnWhenLocked(
    kj::Promise<talosctl::StoredKubeconfig> storing, kj::Function<void(kj::StringPtr)> warn);

// The first file of $KUBECONFIG, else ~/.kube/config. InvalidArgument without a home directory.
kj::String userKubeconfig(talosctl::Invocation& call);
// Fetches one from the first control-plane node into the cluster's own files (0600), where its
// supervisor finds it.
kj::Promise<kube::ReceivedKubeconfig> keepKubeconfig(talosctl::Invocation& call,
                                                     rpc::LocalCluster::Reader cluster,
                                                     kj::StringPtr stateFolder);
// Merges it into the user's: an entry of the same name with another content is renamed, which is
// printed on stderr.
kj::Promise<void> mergeUserKubeconfig(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                                      kube::ReceivedKubeconfig given, kj::String path);

}  // namespace talos::cluster
