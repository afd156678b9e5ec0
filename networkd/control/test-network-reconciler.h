// The controller on a model machine, with a store and a host that are not there.
#pragma once

#include "networkd/control/test-model-machine.h"
#include "networkd/control/test-network-store.h"

namespace talos::networkd {

class ControllerTest : public ModelMachine {
 public:
  ~ControllerTest() noexcept override {}

 protected:
  kj::Own<netlink::Monitor> monitor = kernel.monitor();
  FakeBoard board;
  FakeHost host;
  Signal work;
  kj::Maybe<kj::Own<Controller>> controller;
  kj::Promise<void> running = nullptr;

  void start() {
    auto made =
        kj::heap<Controller>(kernel, *monitor, board, host, timer, work, [] { return 0.5; });
    running = watched(made->run());
    controller = kj::mv(made);
    settle();
  }
  // As a SIGKILL: nothing is cleaned up, everything in memory is gone.
  void kill() {
    running = nullptr;
    controller = nullptr;
  }
  void specs() {
    board.synced = true;
    board.addresses.clear();
    board.addresses.add(kj::str("10.5.0.2/24"));
    board.defaultRoute = true;
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
