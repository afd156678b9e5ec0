// Whether a control plane of before v0.9, which runs in the cluster itself, is still in charge: the
// key `initialized` of etcd says "true" then (spec kubernetes.md §2). Nobody may run another one
// beside it, nor before etcd of this node has told for the first time.
//
// Asked of the local member until it answers with what a quorum says, and again from time to time,
// for `talosctl convert-k8s` removes the key. Nothing is kept: after a crash it is asked anew.
#pragma once

#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

class BootstrapStatus {
 public:
  struct Dependencies {
    kj::Timer& timer;
    kj::Function<bool()> runs;  // etcd of this node
    Doors& doors;
    kj::Function<kj::Promise<void>(bool selfHosted)> tell;
  };
  explicit BootstrapStatus(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::Promise<void> run();  // never ends

 private:
  Dependencies deps;
  kj::Maybe<bool> told;

  kj::Promise<kj::Duration> look();  // when to look again
};

}  // namespace talos::supervisor
