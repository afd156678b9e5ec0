// Creates the objects of this node's manifests in the cluster.
//
// They are created under a mutex of the whole cluster, in etcd: every control-plane node does this
// on its own, one at a time. machined's manifests come first; each extra one is created by itself,
// so a wrong one does not delay the others. A failed pass is repeated after 500 ms and then after
// up to 10 s. An extra manifest that cannot be created is retried by itself, after 500 ms and then
// after up to two minutes. Applied manifests are checked again every few minutes: an object that
// somebody has deleted, and that the config asks for, comes back. After a
// pass the objects of earlier releases that gave too many rights are removed (retired-objects.h).
// ManifestStatuses[manifests] says what the pass waits for, why it failed and which manifests are
// applied. After a crash the pass is repeated and finds all objects; meanwhile the status keeps the
// manifests that were applied before.
#pragma once

#include "common/base/backoff.h"
#include "common/base/controller-log.h"
#include "common/etcd/etcd.h"
#include "kubed/manifests/kubernetes-store-adapter.h"
#include "kubed/manifests/manifest-progress.h"

namespace talos::kubed {

struct KubedDependencies {
  kj::Timer& timer;
  kj::Function<double()>& random;  // in [0,1)
  StoreClient& store;
  KubernetesStoreAdapter& adapter;
  Signal& changed;  // the inputs of the adapter
  const kj::Clock& clock = kj::systemPreciseCalendarClock();

  NodeDependencies ofNode() const {
    return {
        .timer = timer, .random = random, .store = store, .adapter = adapter, .changed = changed};
  }
};

constexpr auto kTokenLifetime = 1 * kj::HOURS;  // of the bootstrap token, from its last renewal

constexpr Backoff::Pace kRetryPace = {
    .first = 500 * kj::MILLISECONDS, .longest = 10 * kj::SECONDS, .chance0 = 0.75, .chance1 = 1.25};

constexpr auto kCheckAgain = 3 * kj::MINUTES;  // for objects that were deleted

constexpr Backoff::Pace kExtraPace = {
    .first = 500 * kj::MILLISECONDS, .longest = 2 * kj::MINUTES, .chance0 = 0.75, .chance1 = 1.25};

class ManifestReconciler {
 public:
  ManifestReconciler(KubedDependencies deps, etcd::Etcd& etcd)
      : deps(deps), etcd(etcd), backoff(kRetryPace), extraBackoff(kExtraPace) {}
  KJ_DISALLOW_COPY_AND_MOVE(ManifestReconciler);

  kj::Promise<void> run();  // until dropped

 private:
  KubedDependencies deps;
  etcd::Etcd& etcd;
  ControllerLog controller{"k8s.ManifestApplyController"};
  Backoff backoff, extraBackoff;
  ManifestProgress progress;
  kj::Maybe<kj::TimePoint> extraRetry;  // when extra manifests that failed are tried again
  kj::Maybe<kj::TimePoint> nextCheck;   // of all manifests; none: they have not been applied yet
  bool checking = false;                // the pass that runs is such a check
  bool recalled = false;
  kj::String lastReported;
  kj::String failed;  // the error of the newest pass; empty: none

  struct HeldManifest {
    kj::String id, objects;
    bool extra;
    uint64_t version;
  };
  kj::Promise<void> report(kj::String message);
  kj::Promise<void> reportApplied();
  kj::Promise<void> recall();
  kj::Promise<void> pass();
  kj::Promise<void> apply(kj::Own<SharedKube> kubernetes, kj::Array<HeldManifest> manifests);
  kj::Promise<void> create(SharedKube& kubernetes, kj::ArrayPtr<const HeldManifest> manifests);
  bool quiet() const;  // the log has the steps of a pass already
};

}  // namespace talos::kubed
