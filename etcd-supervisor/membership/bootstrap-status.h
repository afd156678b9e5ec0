// Finds out if a control plane from before v0.9, which runs in the cluster itself, is still in
// charge: then the key `initialized` of etcd is "true". No other control plane may run beside it,
// nor before etcd of this node has answered for the first time.
//
// Reads the key from the local member until the member returns what a quorum has, and again from
// time to time, because `talosctl convert-k8s` removes the key. Keeps no state: after a crash it
// reads again.
#pragma once

#include "common/base/controller-log.h"
#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

class BootstrapStatus {
 public:
  struct Dependencies {
    kj::Timer& timer;
    kj::Function<bool()> runs;  // true if etcd of this node runs
    EtcdEndpoints& endpoints;
    kj::Function<kj::Promise<void>(bool selfHosted)> publish;
  };
  explicit BootstrapStatus(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::Promise<void> run();  // never ends

 private:
  Dependencies deps;
  ControllerLog controller{"v1alpha1.BootstrapStatusController"};
  kj::Maybe<bool> published;

  kj::Promise<kj::Duration> look();  // returns the time until the next look
};

// Removes the key; returns false if it did not exist. The errors are etcd's.
kj::Promise<bool> endSelfHosting(etcd::Etcd& etcd);

}  // namespace talos::supervisor
