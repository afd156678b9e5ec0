// Makes pods leave their node: all at once, through the eviction API, so a PodDisruptionBudget is
// kept, or by deletion, which asks none. A refused eviction is retried, a server that is away is
// waited for; a failure is reported and does not delay the other pods.
//
// Nothing is kept: after a crash it is all done again, and finds done what is done. Another pod
// that has taken a name is not touched. Every call has its deadline (kube-client.h); the caller
// limits the whole, for a budget may refuse for ever.
#pragma once

#include <kj/timer.h>

#include "common/kube/drain-plan.h"
#include "common/kube/kube-client.h"

namespace talos::kube {

constexpr auto kEvictionPause = 5 * kj::SECONDS, kGoneLook = 3 * kj::SECONDS;

struct EvictionOptions {
  kj::Maybe<kj::Duration> grace = nullptr;  // none: the pod's own
  bool deletes = false;
  // That a pod has to disappear after it was asked to; none: as long as the caller waits.
  kj::Maybe<kj::Duration> goneTimeout = nullptr;
};

// Each pod gets asked() unless it is ending already, any number of refused(), ending(), and at last
// gone() or failed().
class EvictionListener {
 public:
  virtual void asked(const LeavingPod& pod) {}
  // For now, and with each retry: by a PodDisruptionBudget, or a server that has too much to do.
  virtual void refused(const LeavingPod& pod, kj::StringPtr message) {}
  virtual void ending(const LeavingPod& pod) {}
  virtual void gone(const LeavingPod& pod) {}
  virtual void failed(const LeavingPod& pod, kj::StringPtr error) {}

 protected:
  ~EvictionListener() noexcept(false) = default;
};

// Resolves when each pod is gone or has failed; does not reject. All outlive it.
kj::Promise<void> evictPods(kj::Timer& timer, KubeClient& client,
                            kj::ArrayPtr<const LeavingPod> pods, EvictionOptions options,
                            EvictionListener& listener);

}  // namespace talos::kube
