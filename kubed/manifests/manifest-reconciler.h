// Creates the objects of this node's manifests in the cluster.
//
// They are created under a mutex of the whole cluster, in etcd: every control-plane node does this,
// one at a time. machined's manifests come first; each extra manifest is created separately, so a
// wrong one does not delay the others. A failed pass is repeated after 500 ms and then after up to
// 10 s. An extra manifest that cannot be created is retried separately, after 500 ms and then after
// up to two minutes. Applied manifests are checked again every few minutes: an object of the config
// that was deleted is created again. After a pass the objects of earlier releases that gave too
// many rights are removed (removeRetired()). ManifestStatuses[manifests] says what the pass waits
// for, why it failed and which manifests are applied. After a crash the pass is repeated and finds
// all objects; meanwhile the status keeps the manifests that were applied before.
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
  Signal& changed;  // raised by changes of the adapter's inputs
  const kj::Clock& clock = kj::systemPreciseCalendarClock();

  NodeDependencies ofNode() const {
    return {
        .timer = timer, .random = random, .store = store, .adapter = adapter, .changed = changed};
  }
};

constexpr auto kTokenLifetime = 1 * kj::HOURS;  // of the bootstrap token after a renewal

constexpr Backoff::Pace kRetryPace = {
    .first = 500 * kj::MILLISECONDS, .longest = 10 * kj::SECONDS, .chance0 = 0.75, .chance1 = 1.25};

constexpr auto kCheckAgain = 3 * kj::MINUTES;  // until the next check for deleted objects

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
  kj::Maybe<kj::TimePoint> extraRetry;  // time to retry extra manifests that failed
  kj::Maybe<kj::TimePoint> nextCheck;   // time to check all manifests; nullptr: not applied yet
  bool checking = false;                // true if the running pass is such a check
  bool recalled = false;
  kj::String lastReported;
  kj::String failed;  // error of the newest pass; empty if it succeeded

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
  bool quiet() const;  // true if the log has the steps of a pass already
};

}  // namespace talos::kubed
