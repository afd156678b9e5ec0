// Follows objects of Kubernetes for as long as the program runs: lists them, then watches what
// becomes of them, and begins anew when the board changes, when the server ends the watch, and when
// something fails: after half a second and then after up to 10 s, until a watch has begun.
#pragma once

#include "kubed/manifests/manifest-reconciler.h"

namespace talos::kubed {

class WatchLoop {
 public:
  // All outlive it. `changed`: of the board.
  WatchLoop(kj::Timer& timer, kj::Function<double()>& random, Signal& changed)
      : timer(timer), random(random), changed(changed), backoff(kRetryPace) {}
  KJ_DISALLOW_COPY_AND_MOVE(WatchLoop);

  using Follow = kj::Function<kj::Promise<void>()>;
  using Failed = kj::Function<kj::Promise<void>(kj::String why)>;
  // `follow` until it fails or the board changes. Until dropped.
  kj::Promise<void> run(Follow follow, Failed failed);

  struct Objects {
    kj::Function<void()> begin;  // a new list: what was known is not
    kj::Function<void(const kube::Json&, bool deleted)> take;
    kj::Function<kj::Promise<void>()> publish;  // all of the list, or one change
    kj::Function<void()> watched;               // they are known, and will be
  };
  // Again and again. All outlive it.
  kj::Promise<void> watch(SharedKube& kubernetes, const kube::Resource& resource,
                          const kube::ListOptions& options, Objects& objects);
  // What has failed before is over.
  void works() { backoff.reset(); }

 private:
  kj::Timer& timer;
  kj::Function<double()>& random;
  Signal& changed;
  Backoff backoff;

  kj::Promise<void> watchOnce(SharedKube& kubernetes, const kube::Resource& resource,
                              const kube::ListOptions& options, Objects& objects);
};

}  // namespace talos::kubed
