// Keeps the bootstrap token of the config valid in Kubernetes, for kTokenLifetime at a time: the
// Secret kube-system/bootstrap-token-<id> has an end, and is renewed after half of the time. So a
// token ends soon after the config has another one, or after the control plane is gone.
//
// The Secret is created by its manifest, or by this when it was removed. Every control-plane node
// does this; what another one has renewed is left. Failures are retried after 500 ms and then after
// up to 10 s. Nothing is kept over a crash.
#pragma once

#include "kubed/manifests/manifest-reconciler.h"

namespace talos::kubed {

// The Secret of a token: as the manifest has it, with its end.
kube::Json tokenObject(kj::StringPtr id, kj::StringPtr secret, kj::Date end);
// The patch for the Secret that is there; none: its secret is the right one and its end is more
// than half of kTokenLifetime away. Pure.
kj::Maybe<kube::Json> tokenRenewal(const kube::Json& there, kj::StringPtr secret, kj::Date now);

class BootstrapTokenReconciler {
 public:
  explicit BootstrapTokenReconciler(KubedDependencies deps) : deps(deps), backoff(kRetryPace) {}
  KJ_DISALLOW_COPY_AND_MOVE(BootstrapTokenReconciler);

  kj::Promise<void> run();  // until dropped

 private:
  KubedDependencies deps;
  Backoff backoff;
  kj::String failed;  // the error of the last try; empty: none

  kj::Promise<void> renew();
};

}  // namespace talos::kubed
