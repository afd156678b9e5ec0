// A client of Kubernetes' API, with an admin kubeconfig that a control-plane node gives.
#pragma once

#include <kj/function.h>

#include "common/kube/kube-client.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

struct KubeRoute {
  kj::StringPtr server = "";  // a host instead of the one in the kubeconfig, port 6443
  // Where that does not answer, through an endpoint of the client, first the one that it is
  // connected to: these are control-plane nodes that this host reaches, as the address in the
  // kubeconfig may not be.
  bool orEndpoint = false;
  // Gets the address ("10.5.0.2:6443") of the first connection, and of each that is another one.
  kj::Function<void(kj::StringPtr)> reached = [](kj::StringPtr) {};
};

// Of this node; empty: of the endpoint. It is not connected to yet; `client` is, within the
// deadline. Whatever leads there, the server has to have the certificate of the one in the
// kubeconfig.
kj::Promise<kj::Own<kube::KubeClient>> connectKubernetes(Client& client, kj::StringPtr node,
                                                         KubeRoute route, kj::Duration deadline);

}  // namespace talos::talosctl
