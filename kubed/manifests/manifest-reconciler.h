// Sees to it that the cluster has the objects of this node's manifests.
//
// They are created under a mutex of the whole cluster, in etcd: every control-plane node does this
// on its own, one at a time. Those of machined come first; each extra one is created by itself, so
// one that is wrong holds up no other. A pass that fails is begun anew, after half a second and
// then after up to 10 s. An extra manifest that cannot be created is tried again by itself, after
// half a second and then after up to two minutes. What is done is looked at again only when it has
// changed. What is waited for, why it failed and what was applied is ManifestStatuses[manifests].
// After a crash the pass is repeated, and finds everything there; meanwhile what was applied before
// is told.
#pragma once

#include "common/base/backoff.h"
#include "common/etcd/etcd.h"
#include "kubed/manifests/kubernetes-store-adapter.h"
#include "kubed/manifests/manifest-progress.h"

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

constexpr Backoff::Pace kExtraPace = {
    .first = 500 * kj::MILLISECONDS, .longest = 2 * kj::MINUTES, .chance0 = 0.75, .chance1 = 1.25};

class ManifestKeeper {
 public:
  // `problem`: of what manifests there are; empty: none.
  ManifestKeeper(KubedWorld world, etcd::Etcd& etcd, kj::Function<kj::StringPtr()> problem)
      : world(world),
        etcd(etcd),
        problem(kj::mv(problem)),
        backoff(kRetryPace),
        extraBackoff(kExtraPace) {}
  KJ_DISALLOW_COPY_AND_MOVE(ManifestKeeper);

  kj::Promise<void> run();  // until dropped

 private:
  KubedWorld world;
  etcd::Etcd& etcd;
  kj::Function<kj::StringPtr()> problem;
  Backoff backoff, extraBackoff;
  ManifestProgress progress;
  kj::Maybe<kj::TimePoint> extraRetry;  // when extra manifests that failed are tried again
  bool recalled = false;
  kj::String told;    // the newest
  kj::String failed;  // why the newest pass did; empty: it did not

  struct HeldManifest {
    kj::String id, objects;
    bool extra;
    uint64_t version;
  };
  kj::Promise<void> tell(kj::String message);
  kj::Promise<void> tellApplied();
  kj::Promise<void> recall();
  kj::Promise<void> pass();
  kj::Promise<void> apply(kj::Own<SharedKube> kubernetes, kj::Array<HeldManifest> manifests);
  kj::Promise<void> create(SharedKube& kubernetes, kj::ArrayPtr<const HeldManifest> manifests);
  bool quiet() const;  // what comes now was in the log already
};

}  // namespace talos::kubed
