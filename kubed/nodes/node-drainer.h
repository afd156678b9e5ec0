// Takes this node out of service in Kubernetes, and back: cordon, drain, uncordon.
//
// A drain cordons the node, unless it is cordoned already, then evicts all pods of the plan
// (common/kube/drain-plan.h) in parallel (common/kube/pod-evictor.h). Pods of a DaemonSet and those
// without a controller stay: nothing would create them on another node. A failure is a warning.
// Each wait has a timeout, and so has the whole drain. After a crash at any line the whole drain is
// repeated, and steps that were done are skipped: the annotation on the node is the only state.
//
// A pod has 10 s beyond its grace period to disappear; Talos 0.9 gives up a pod that uses all of
// its grace period at the moment when it ends.
#pragma once

#include <kj/one-of.h>
#include <kj/timer.h>

#include "common/base/backoff.h"
#include "common/kube/pod-evictor.h"
#include "kubed/manifests/kubernetes-store-adapter.h"

namespace talos::kubed {

constexpr auto kCordonTimeout = 30 * kj::SECONDS, kDrainTimeout = 5 * kj::MINUTES,
               kEvictionGrace = 60 * kj::SECONDS, kGoneTimeout = 70 * kj::SECONDS;

// Progress of a drain, as in NodeDrainStatuses.
struct DrainProgress {
  kj::StringPtr state = "waiting"_kj;
  kj::String message;
  kj::Vector<kj::String> pods;  // pods that still run
  kj::Vector<kj::String> warnings;
};

class NodeDrainer final : private kube::EvictionListener {
 public:
  // Returns the newest client, or the error.
  using Client = kj::Function<kj::OneOf<kj::Own<SharedKube>, kj::String>()>;
  // `changed` is called when `progress` changes. All arguments must outlive this object.
  NodeDrainer(kj::Timer& timer, kj::Function<double()>& random, Client client,
              kj::Function<void()> changed)
      : timer(timer), random(random), client(kj::mv(client)), changed(kj::mv(changed)) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeDrainer);

  // Neither method rejects; the state ends as done or failed. One call at a time.
  kj::Promise<void> drain(kj::StringPtr nodename);
  // Waits until the node is Ready, for as long as it takes.
  kj::Promise<void> uncordon(kj::StringPtr nodename);

  const DrainProgress& progress() const { return current; }

 private:
  kj::Timer& timer;
  kj::Function<double()>& random;
  Client client;
  kj::Function<void()> changed;
  DrainProgress current;

  void report(kj::StringPtr state, kj::String message);
  void refused(const kube::LeavingPod& pod, kj::StringPtr message) override;
  void gone(const kube::LeavingPod& pod) override;
  void failed(const kube::LeavingPod& pod, kj::StringPtr error) override;
  kj::Own<SharedKube> requireClient();
  kj::Promise<void> retry(kj::Function<kj::Promise<void>()> attempt);
  kj::Promise<void> cordon(kj::StringPtr nodename);
  kj::Promise<void> evictAll(kj::Own<SharedKube> kubernetes, kj::StringPtr nodename);
  kj::Promise<bool> uncordonIfReady(kj::StringPtr nodename);
};

}  // namespace talos::kubed
