// Finds out if a control plane of before v0.9, which runs in the cluster itself, is still in
// charge: the key `initialized` of etcd says "true" then. No other control plane may run beside it,
// nor before etcd of this node has answered for the first time.
//
// Asks the local member until it answers with what a quorum says, and again from time to time, for
// `talosctl convert-k8s` removes the key. Keeps nothing: after a crash it asks anew.
#pragma once

#include "common/base/controller-log.h"
#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

class BootstrapStatus {
 public:
  struct Dependencies {
    kj::Timer& timer;
    kj::Function<bool()> runs;  // etcd of this node
    EtcdEndpoints& endpoints;
    kj::Function<kj::Promise<void>(bool selfHosted)> publish;
  };
  explicit BootstrapStatus(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::Promise<void> run();  // never ends

 private:
  Dependencies deps;
  ControllerLog controller{"v1alpha1.BootstrapStatusController"};
  kj::Maybe<bool> published;

  kj::Promise<kj::Duration> look();  // when to look again
};

// Removes the key. False: it was not there. The errors are etcd's.
kj::Promise<bool> endSelfHosting(etcd::Etcd& etcd);

}  // namespace talos::supervisor
