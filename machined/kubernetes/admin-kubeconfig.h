// Makes a kubeconfig for an administrator (Machine.kubeconfig): for the endpoint of the cluster,
// with a new key and certificate, which are made for this request and not stored. Kubernetes need
// not run. The node's own admin kubeconfig (kubernetes-secrets.h) never leaves the node for this.
#pragma once

#include <kj/time.h>

#include "common/tls/pki.h"
#include "rpc/config.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

// Inputs of the kubeconfig, by value for the thread pool.
struct AdminKubeconfig {
  kj::String cluster, server, authority;  // PEM
  pki::Pem authorityKey;
  kj::Duration lifetime;
};
// Collects the inputs. `certLifetime`: cluster.adminKubeconfig.certLifetime; empty: a year. At
// least an hour. FailedPrecondition without the CA and its key.
AdminKubeconfig adminKubeconfigOf(rpc::RootSecretSpec::KubernetesRoot::Reader root,
                                  kj::StringPtr certLifetime);

// Writes the kubeconfig. The certificate has CN admin, O system:masters, and expires at the latest
// with its CA. FailedPrecondition while the clock is before the CA was made. Blocking.
pki::Pem writeAdminKubeconfig(const AdminKubeconfig& wanted, kj::Date now);

}  // namespace talos::machined
