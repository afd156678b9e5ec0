#include "machined/boot/tasks/control-plane-status.h"

#include "common/testing/virtual-time.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

struct ControlPlaneStatusTest : testing::Test {
  ~ControlPlaneStatusTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Registry registry;
  TestClock clock;
  Store store{registry, clock};

  void etcd(bool healthy) {
    putRecord<rpc::ServiceSpec>(store, "etcd", [&](auto spec) {
      spec.setRunning(true);
      spec.setHealthy(healthy);
    });
  }
  void status(bool selfHosted) {
    putRecord<rpc::BootstrapStatusSpec>(
        store, "control-plane", [&](auto spec) { spec.setSelfHostedControlPlane(selfHosted); });
  }
};

// Catches: a boot that waits for a status that a worker, or a node without a cluster, never gets.
TEST_F(ControlPlaneStatusTest, ANodeWithoutEtcdIsNotKeptWaiting) {
  EXPECT_FALSE(selfHostedControlPlane(store, timer).wait(scope));
  etcd(false);
  EXPECT_FALSE(selfHostedControlPlane(store, timer).wait(scope));
}

// Catches: a missing warning because the status came a moment after etcd; an endless wait.
TEST_F(ControlPlaneStatusTest, TheStatusIsWaitedForAWhile) {
  etcd(true);
  auto early = selfHostedControlPlane(store, timer);
  EXPECT_FALSE(early.poll(scope));
  status(true);
  ASSERT_TRUE(early.poll(scope));
  EXPECT_TRUE(early.wait(scope));
  EXPECT_TRUE(selfHostedControlPlane(store, timer).wait(scope));
  status(false);
  EXPECT_FALSE(selfHostedControlPlane(store, timer).wait(scope));
}

TEST_F(ControlPlaneStatusTest, NothingIsSaidForTooLong) {
  etcd(true);
  auto waits = selfHostedControlPlane(store, timer);
  advance(timer, scope, kUntilStatusKnown - 1 * kj::SECONDS);
  EXPECT_FALSE(waits.poll(scope));
  advance(timer, scope, 1 * kj::SECONDS);
  ASSERT_TRUE(waits.poll(scope));
  EXPECT_FALSE(waits.wait(scope));
}

}  // namespace
}  // namespace talos::machined
