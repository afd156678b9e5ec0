// Keeps the bootstrap token of the config valid in Kubernetes, for kTokenLifetime at a time: the
// Secret kube-system/bootstrap-token-<id> has an end, and is renewed after half of the time. So a
// token ends soon after the config has a new one, or after the control plane is gone.
//
// The manifest creates the Secret, and this reconciler creates it again if it was removed. Every
// control-plane node does this, and leaves a Secret that another node has renewed. Failures are
// retried after 500 ms and then after up to 10 s. No state survives a crash.
#pragma once

#include "kubed/manifests/manifest-reconciler.h"

namespace talos::kubed {

// Returns the Secret of a token: the manifest's, with its end.
kube::Json tokenObject(kj::StringPtr id, kj::StringPtr secret, kj::Date end);
// Returns the patch for the existing Secret; nullptr if its secret is right and its end is more
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
  kj::String failed;  // error of the last try; empty if it succeeded

  kj::Promise<void> renew();
};

}  // namespace talos::kubed
