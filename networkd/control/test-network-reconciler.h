// The reconciler on a model machine, with a fake store and host.
#pragma once

#include "networkd/control/test-model-machine.h"
#include "networkd/control/test-network-store.h"

namespace talos::networkd {

class NetworkReconcilerTest : public ModelMachine {
 public:
  ~NetworkReconcilerTest() noexcept override {}

 protected:
  kj::Own<netlink::Monitor> monitor = kernel.monitor(NetworkReconciler::kSubjects);
  FakeStore store;
  FakeHost host;
  Signal work;
  kj::Maybe<kj::Own<NetworkReconciler>> reconciler;
  kj::Promise<void> running = nullptr;

  void start() {
    auto made =
        kj::heap<NetworkReconciler>(kernel, *monitor, store, host, timer, work, [] { return 0.5; });
    running = watched(made->run());
    reconciler = kj::mv(made);
    settle();
  }
  // Acts as SIGKILL: nothing is cleaned up, and everything in memory is lost.
  void kill() {
    running = nullptr;
    reconciler = nullptr;
  }
  void specs() {
    store.synced = true;
    store.addresses.clear();
    store.addresses.add(kj::str("10.5.0.2/24"));
    store.defaultRoute = true;
  }
  bool has(kj::StringPtr text) {
    for (auto& a : kernel.addresses()) {
      if (a.prefix == prefix(text)) return true;
    }
    return false;
  }
  bool hasDefault() {
    return hasDefaultRoute({kernel.links(), kernel.addresses(), kernel.routes(), true});
  }
};

}  // namespace talos::networkd
