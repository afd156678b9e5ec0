// Access of pods to the machine API (machine.features.kubernetesTalosAPIAccess): the Secrets of
// their accounts (account-reconciler.h) and the Endpoints of the Service default/talos, which lead
// to apid of the control-plane nodes.
//
// Of all control-plane nodes one does this at a time: the one that holds a mutex of the cluster, in
// etcd. While the config does not enable it, nothing is done, and what was made before stays. After
// a crash another node holds the mutex when the lease of this one has ended.
#pragma once

#include "common/etcd/etcd.h"
#include "kubed/accounts/account-reconciler.h"

namespace talos::kubed {

class PodAccess {
 public:
  // All outlive it. deps.changed is raised with the changes of `access`, too.
  PodAccess(const KubedDependencies& deps, AccessStoreAdapter& access, etcd::Etcd& etcd)
      : deps(deps), access(access), etcd(etcd), accounts(deps, access), backoff(kRetryPace) {}
  KJ_DISALLOW_COPY_AND_MOVE(PodAccess);

  kj::Promise<void> run();  // until dropped

 private:
  const KubedDependencies deps;
  AccessStoreAdapter& access;
  etcd::Etcd& etcd;
  AccountReconciler accounts;
  Backoff backoff;
  kj::String logged;  // the last error

  bool enabled() const;
  kj::Promise<void> disabled();
  kj::Promise<void> hold();
  kj::Promise<void> keepEndpoints();
};

}  // namespace talos::kubed
