// Takes this node out of service in Kubernetes, and back: cordon, drain, uncordon.
//
// A drain cordons the node, unless somebody has, then asks all pods that are to leave (plan:
// node-drain-plan.h) at once, through the eviction API, so a PodDisruptionBudget is kept. A pod
// that is refused is asked again; what does not work is a warning and keeps no other pod. Each wait
// has an end, the whole drain as well. Whatever is cut off at any line is done again as a whole and
// finds done what is done: the annotation on the node is the only thing that it keeps.
//
// Facts: spec kubernetes.md §15. A pod has 10 s more to disappear than its grace: the original
// gives up a pod that takes all of its grace in the moment in which it ends.
#pragma once

#include <kj/one-of.h>
#include <kj/timer.h>

#include "common/base/backoff.h"
#include "kubed/manifests/kubernetes-store-adapter.h"
#include "kubed/nodes/node-drain-plan.h"

namespace talos::kubed {

constexpr auto kCordonPatience = 30 * kj::SECONDS, kDrainPatience = 5 * kj::MINUTES,
               kEvictionGrace = 60 * kj::SECONDS, kEvictionPause = 5 * kj::SECONDS,
               kGoneLook = 3 * kj::SECONDS, kGonePatience = 70 * kj::SECONDS;

// How far it is; what NodeDrainStatuses says.
struct DrainProgress {
  kj::StringPtr state = "waiting"_kj;
  kj::String message;
  kj::Vector<kj::String> pods;  // that have not left
  kj::Vector<kj::String> warnings;
};

class NodeDrainer {
 public:
  // The newest client, or why there is none.
  using Client = kj::Function<kj::OneOf<kj::Own<SharedKube>, kj::String>()>;
  // `changed` is called when `progress` says something else. All outlive it.
  NodeDrainer(kj::Timer& timer, kj::Function<double()>& random, Client client,
              kj::Function<void()> changed)
      : timer(timer), random(random), client(kj::mv(client)), changed(kj::mv(changed)) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeDrainer);

  // Neither rejects; the state ends as done or failed. One at a time.
  kj::Promise<void> drain(kj::StringPtr nodename);
  // Waits until the node is Ready, for as long as it takes.
  kj::Promise<void> uncordon(kj::StringPtr nodename);

  const DrainProgress& progress() const { return now; }

 private:
  kj::Timer& timer;
  kj::Function<double()>& random;
  Client client;
  kj::Function<void()> changed;
  DrainProgress now;

  void tell(kj::StringPtr state, kj::String message);
  void warn(kj::String line);
  void left(kj::StringPtr id);
  kj::Own<SharedKube> requireClient();
  kj::Promise<void> insist(kj::Function<kj::Promise<void>()> attempt);
  kj::Promise<void> cordon(kj::StringPtr nodename);
  kj::Promise<void> evictAll(kj::Own<SharedKube> kubernetes, kj::StringPtr nodename);
  kj::Promise<void> leave(SharedKube& kubernetes, const LeavingPod& pod);
  kj::Promise<bool> askToLeave(SharedKube& kubernetes, const LeavingPod& pod);
  kj::Promise<void> awaitGone(SharedKube& kubernetes, const LeavingPod& pod);
  kj::Promise<bool> uncordonIfReady(kj::StringPtr nodename);
};

}  // namespace talos::kubed
