// Access of pods to the machine API (machine.features.kubernetesTalosAPIAccess): the Secrets of
// their accounts (account-reconciler.h) and the Endpoints of the Service default/talos, which lead
// to apid of the control-plane nodes.
//
// One control-plane node does this at a time: the holder of a mutex of the cluster, in etcd. While
// the config does not enable the access, nothing is done, and existing objects stay. After a crash
// another node gets the mutex when the lease of this node has ended.
#pragma once

#include "common/etcd/etcd.h"
#include "kubed/accounts/account-reconciler.h"

namespace talos::kubed {

class PodAccess {
 public:
  // All arguments must outlive this object. deps.changed is also raised by changes of `access`.
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
  kj::String logged;  // last error

  bool enabled() const;
  kj::Promise<void> disabled();
  kj::Promise<void> hold();
  kj::Promise<void> keepEndpoints();
};

}  // namespace talos::kubed
