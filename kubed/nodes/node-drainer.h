// Takes this node out of service in Kubernetes, and back: cordon, drain, uncordon.
//
// A drain cordons the node, unless somebody has, then evicts all pods of the plan
// (node-drain-plan.h) at once, through the eviction API, so a PodDisruptionBudget is kept. A
// refused eviction is retried; a failure is a warning and does not delay the other pods. Each wait
// has a timeout, and so has the whole drain. After a crash at any line the whole drain is repeated
// and finds done what is done: the annotation on the node is the only thing that it keeps.
//
// A pod has 10 s beyond its grace period to disappear: Talos 0.9 gives up a pod that uses all of
// its grace period in the moment in which it ends.
#pragma once

#include <kj/one-of.h>
#include <kj/timer.h>

#include "common/base/backoff.h"
#include "kubed/manifests/kubernetes-store-adapter.h"
#include "kubed/nodes/node-drain-plan.h"

namespace talos::kubed {

constexpr auto kCordonTimeout = 30 * kj::SECONDS, kDrainTimeout = 5 * kj::MINUTES,
               kEvictionGrace = 60 * kj::SECONDS, kEvictionPause = 5 * kj::SECONDS,
               kGoneLook = 3 * kj::SECONDS, kGoneTimeout = 70 * kj::SECONDS;

// The progress of a drain, as in NodeDrainStatuses.
struct DrainProgress {
  kj::StringPtr state = "waiting"_kj;
  kj::String message;
  kj::Vector<kj::String> pods;  // that still run
  kj::Vector<kj::String> warnings;
};

class NodeDrainer {
 public:
  // The newest client, or the error.
  using Client = kj::Function<kj::OneOf<kj::Own<SharedKube>, kj::String>()>;
  // `changed` is called when `progress` changes. All outlive it.
  NodeDrainer(kj::Timer& timer, kj::Function<double()>& random, Client client,
              kj::Function<void()> changed)
      : timer(timer), random(random), client(kj::mv(client)), changed(kj::mv(changed)) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeDrainer);

  // Neither rejects; the state ends as done or failed. One at a time.
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
  void warn(kj::String line);
  void removePod(kj::StringPtr id);
  kj::Own<SharedKube> requireClient();
  kj::Promise<void> retry(kj::Function<kj::Promise<void>()> attempt);
  kj::Promise<void> cordon(kj::StringPtr nodename);
  kj::Promise<void> evictAll(kj::Own<SharedKube> kubernetes, kj::StringPtr nodename);
  kj::Promise<void> evict(SharedKube& kubernetes, const LeavingPod& pod);
  kj::Promise<bool> requestEviction(SharedKube& kubernetes, const LeavingPod& pod);
  kj::Promise<void> awaitGone(SharedKube& kubernetes, const LeavingPod& pod);
  kj::Promise<bool> uncordonIfReady(kj::StringPtr nodename);
};

}  // namespace talos::kubed
