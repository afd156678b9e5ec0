// Removes pods from their node, all in parallel: by the eviction API, which honours
// PodDisruptionBudgets, or by deletion, which does not. Retries a refused eviction, and waits for a
// server that cannot be reached; reports a failure, which does not delay the other pods.
//
// Keeps no state: after a crash the caller starts again, and pods that have left are skipped.
// Another pod that has taken a name is not touched. Every call has its deadline (kube-client.h);
// the caller limits the total time, because a budget may refuse for ever.
#pragma once

#include <kj/timer.h>

#include "common/kube/drain-plan.h"
#include "common/kube/kube-client.h"

namespace talos::kube {

constexpr auto kEvictionPause = 5 * kj::SECONDS, kGoneLook = 3 * kj::SECONDS;

struct EvictionOptions {
  kj::Maybe<kj::Duration> grace = nullptr;  // nullptr: the pod's own
  bool deletes = false;
  // How long a pod may take to disappear after its eviction was accepted; nullptr: no limit.
  kj::Maybe<kj::Duration> goneTimeout = nullptr;
};

// Listener of an eviction. Each pod gets requested() unless it is ending already, any number of
// refused(), ending(), and at last gone() or failed().
class EvictionListener {
 public:
  virtual void requested(const LeavingPod& pod) {}
  // Called at each refusal, which is temporary: by a PodDisruptionBudget, or by a server that has
  // too much to do.
  virtual void refused(const LeavingPod& pod, kj::StringPtr message) {}
  virtual void ending(const LeavingPod& pod) {}
  virtual void gone(const LeavingPod& pod) {}
  virtual void failed(const LeavingPod& pod, kj::StringPtr error) {}

 protected:
  ~EvictionListener() noexcept(false) = default;
};

// Resolves when each pod is gone or has failed; does not reject. All arguments must outlive the
// promise.
kj::Promise<void> evictPods(kj::Timer& timer, KubeClient& client,
                            kj::ArrayPtr<const LeavingPod> pods, EvictionOptions options,
                            EvictionListener& listener);

}  // namespace talos::kube
