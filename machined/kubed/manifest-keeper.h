// Sees to it that the cluster has the objects of this node's manifests.
//
// They are created under a mutex of the whole cluster, in etcd: every control-plane node does this
// on its own, one at a time. Those of machined come first; each extra one is created by itself, so
// one that is wrong holds up no other. A pass that fails is begun anew, after half a second and
// then after up to 10 s; one that succeeds is repeated only when a manifest has changed. What it
// waits for, why it failed and what was applied is ManifestStatuses[manifests]. Nothing is kept:
// after a crash the pass is repeated, and finds everything there.
#pragma once

#include "common/base/backoff.h"
#include "common/etcd/etcd.h"
#include "machined/kubed/kubernetes-board.h"

namespace talos::kubed {

struct KubedWorld {
  kj::Timer& timer;
  kj::Function<double()>& random;  // in [0,1)
  StoreClient& store;
  KubernetesBoard& board;
  Signal& changed;  // of the board
};

constexpr Backoff::Pace kRetryPace = {
    .first = 500 * kj::MILLISECONDS, .longest = 10 * kj::SECONDS, .chance0 = 0.75, .chance1 = 1.25};

class ManifestKeeper {
 public:
  // `problem`: of what manifests there are; empty: none.
  ManifestKeeper(KubedWorld world, etcd::Etcd& etcd, kj::Function<kj::StringPtr()> problem)
      : world(world), etcd(etcd), problem(kj::mv(problem)), backoff(kRetryPace) {}
  KJ_DISALLOW_COPY_AND_MOVE(ManifestKeeper);

  kj::Promise<void> run();  // until dropped

 private:
  KubedWorld world;
  etcd::Etcd& etcd;
  kj::Function<kj::StringPtr()> problem;
  Backoff backoff;
  kj::Maybe<kj::String> appliedState;
  kj::Vector<kj::String> applied;  // ids
  kj::String told = kj::str("nothing yet");
  kj::String failed;  // why the newest pass did; empty: it did not

  kj::Promise<void> tell(kj::String message);
  kj::Promise<void> tellApplied();
  kj::Promise<void> pass();
  kj::Promise<void> apply(kj::Own<SharedKube> kubernetes);
  struct HeldManifest {
    kj::String id, objects;
    bool extra;
  };
  kj::Promise<void> create(SharedKube& kubernetes);
};

}  // namespace talos::kubed
