// A kubeconfig for an administrator (Machine.kubeconfig): for the endpoint of the cluster, with a
// key and a certificate of its own that are made for this request and kept nowhere. Kubernetes need
// not run. The node's own admin kubeconfig (kubernetes-secrets.h) never leaves the node for this.
#pragma once

#include <kj/time.h>

#include "common/tls/pki.h"
#include "rpc/config.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

// What it is made of, by value: it goes to the thread pool.
struct AdminKubeconfig {
  kj::String cluster, server, authority;  // PEM
  pki::Pem authorityKey;
  kj::Duration lifetime;
};
// `certLifetime`: cluster.adminKubeconfig.certLifetime; empty: a year. An hour at the least.
// FailedPrecondition without the CA and its key.
AdminKubeconfig adminKubeconfigOf(rpc::RootSecretSpec::KubernetesRoot::Reader root,
                                  kj::StringPtr certLifetime);

// The certificate says CN admin, O system:masters, and ends with its CA at the latest.
// FailedPrecondition while the clock is before the CA was made. Blocking.
pki::Pem writeAdminKubeconfig(const AdminKubeconfig& wanted, kj::Date now);

}  // namespace talos::machined
