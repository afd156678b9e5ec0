// For tests of networkd's loops: a model kernel with one card, and a clock that the test moves.
#pragma once

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/netlink/test-kernel.h"
#include "common/testing/test-ip.h"

namespace talos::networkd {

class ModelMachine : public ::testing::Test {
 public:
  ~ModelMachine() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  netlink::TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");

  void settle() { scope.poll(); }
  void pass(kj::Duration time) {
    settle();  // what happened before began then
    timer.advanceTo(timer.now() + time);
    settle();
  }
  // A loop that must not end.
  static kj::Promise<void> watched(kj::Promise<void> loop) {
    return loop.eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  }
};

}  // namespace talos::networkd
