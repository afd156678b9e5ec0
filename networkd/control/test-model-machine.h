// A model kernel with one card for tests of networkd's loops, and a clock that the test moves.
#pragma once

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/netlink/model/test-kernel.h"
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
    settle();  // Events until now are handled first.
    timer.advanceTo(timer.now() + time);
    settle();
  }
  // Fails the test if this loop ends.
  static kj::Promise<void> watched(kj::Promise<void> loop) {
    return loop.eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  }
};

}  // namespace talos::networkd
