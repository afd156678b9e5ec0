// Makes a kubeconfig for an administrator (Machine.kubeconfig): for the endpoint of the cluster,
// with a key and a certificate of its own that are made for this request and stored nowhere.
// Kubernetes need not run. The node's own admin kubeconfig (kubernetes-secrets.h) never leaves the
// node for this.
#pragma once

#include <kj/time.h>

#include "common/tls/pki.h"
#include "rpc/config.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

// Its inputs, by value for the thread pool.
struct AdminKubeconfig {
  kj::String cluster, server, authority;  // PEM
  pki::Pem authorityKey;
  kj::Duration lifetime;
};
// `certLifetime`: cluster.adminKubeconfig.certLifetime; empty: a year. An hour at the least.
// FailedPrecondition without the CA and its key.
AdminKubeconfig adminKubeconfigOf(rpc::RootSecretSpec::KubernetesRoot::Reader root,
                                  kj::StringPtr certLifetime);

// The certificate has CN admin, O system:masters, and expires with its CA at the latest.
// FailedPrecondition while the clock is before the CA was made. Blocking.
pki::Pem writeAdminKubeconfig(const AdminKubeconfig& wanted, kj::Date now);

}  // namespace talos::machined
