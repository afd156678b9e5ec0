#include "machined/boot/tasks/shutdown-delay.h"

#include <gmock/gmock.h>

#include "common/testing/virtual-time.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct DelayOfAShutdown : public StoreTest {
  ~DelayOfAShutdown() noexcept override {}
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<std::string> reported;

  kj::Promise<void> begin() {
    return delayShutdown(store, timer,
                         [this](kj::StringPtr line) { reported.push_back(line.cStr()); });
  }
  void login1(bool runs) {
    putRecord<rpc::ServiceSpec>(store, "login1", [&](auto spec) { spec.setRunning(runs); }, "test");
  }
  void answers(uint64_t number, kj::StringPtr state, kj::StringPtr holder = "",
               kj::StringPtr message = "") {
    putRecord<rpc::ShutdownDelaySpec>(
        store, "node",
        [&](auto spec) {
          spec.setNumber(number);
          spec.setState(state);
          spec.setMessage(message);
          if (holder.size() > 0) spec.initWaitsFor(1).set(0, holder);
        },
        "login1");
    advance(timer, scope, 1 * kj::SECONDS);
  }
};

// Catches: pods that are stopped while the kubelet still ends them; a node that waits without a
// lock.
TEST_F(DelayOfAShutdown, IsForWhoHoldsALock) {
  begin().wait(scope);  // there is no login1
  EXPECT_TRUE(store.tryGet<rpc::ShutdownRequestSpec>("node") == nullptr);
  login1(true);
  answers(0, "idle", "kubelet (pid 7)");
  auto delay = begin();
  EXPECT_FALSE(delay.poll(scope));
  EXPECT_EQ(KJ_ASSERT_NONNULL(store.tryGet<rpc::ShutdownRequestSpec>("node")).getNumber(), 1u);
  EXPECT_THAT(reported, IsEmpty());
  answers(1, "waiting", "kubelet (pid 7)");
  EXPECT_FALSE(delay.poll(scope));
  answers(1, "over");
  delay.wait(scope);
  EXPECT_THAT(reported, ElementsAre("shutting down: waiting for kubelet (pid 7)"));
  begin().wait(scope);  // of a brain that was restarted: the wait is over
}

// Catches: a node that never goes down.
TEST_F(DelayOfAShutdown, HasAnEnd) {
  login1(true);
  answers(0, "idle");
  auto delay = begin();
  advance(timer, scope, 54 * kj::SECONDS);
  EXPECT_FALSE(delay.poll(scope));
  advance(timer, scope, 1 * kj::SECONDS);
  delay.wait(scope);
  EXPECT_THAT(reported,
              ElementsAre("warning: login1 does not answer; not waiting for inhibitor locks"));
  reported.clear();
  auto again = begin();
  EXPECT_FALSE(again.poll(scope));
  login1(false);
  again.wait(scope);
  EXPECT_THAT(reported, ElementsAre("warning: login1 has exited; not waiting for inhibitor locks"));
  reported.clear();
  login1(true);
  answers(1, "over", "kubelet (pid 7)", "locks not released within 45 s: kubelet (pid 7)");
  begin().wait(scope);
  EXPECT_THAT(reported, ElementsAre("warning: locks not released within 45 s: kubelet (pid 7)"));
}

// Catches: a node that shuts down before the longer time in the kubelet's config has passed; a
// restarted brain that waits for another time than login1.
TEST_F(DelayOfAShutdown, LastsAsLongAsTheKubeletAsks) {
  putRecord<rpc::KubeletSpecSpec>(
      store, "kubelet", [](auto spec) { spec.setShutdownSeconds(60); }, "test");
  login1(true);
  answers(0, "idle", "kubelet (pid 7)");
  auto delay = begin();
  EXPECT_EQ(KJ_ASSERT_NONNULL(store.tryGet<rpc::ShutdownRequestSpec>("node")).getLimit(), 75u);
  advance(timer, scope, 84 * kj::SECONDS);
  EXPECT_FALSE(delay.poll(scope));
  advance(timer, scope, 1 * kj::SECONDS);
  delay.wait(scope);
  putRecord<rpc::KubeletSpecSpec>(
      store, "kubelet", [](auto spec) { spec.setShutdownSeconds(5); }, "test");
  auto again = begin();
  advance(timer, scope, 84 * kj::SECONDS);
  EXPECT_FALSE(again.poll(scope)) << "the request has its limit";
  advance(timer, scope, 1 * kj::SECONDS);
  again.wait(scope);
}

// Catches: a node that shuts down before the kubelet has finished because login1 crashed a moment
// before, or during the wait; a node that waits for a login1 that does not return.
TEST_F(DelayOfAShutdown, ALogin1ThatIsRestartedIsWaitedFor) {
  putRecord<rpc::InhibitorSpec>(store, "1", [](auto spec) { spec.setWho("kubelet"); }, "login1");
  login1(false);
  auto delay = begin();
  EXPECT_FALSE(delay.poll(scope));
  advance(timer, scope, 5 * kj::SECONDS);
  login1(true);
  answers(1, "waiting", "kubelet (pid 7)");
  login1(false);
  advance(timer, scope, 14 * kj::SECONDS);
  EXPECT_FALSE(delay.poll(scope)) << "the time of a restart begins anew";
  login1(true);
  answers(1, "waiting", "kubelet (pid 7)");
  answers(1, "over");
  delay.wait(scope);
  EXPECT_THAT(reported, ElementsAre("shutting down: waiting for kubelet (pid 7)"));

  reported.clear();
  login1(false);
  auto inVain = begin();
  advance(timer, scope, 14 * kj::SECONDS);
  EXPECT_FALSE(inVain.poll(scope));
  advance(timer, scope, 1 * kj::SECONDS);
  inVain.wait(scope);
  EXPECT_THAT(reported, ElementsAre("warning: login1 has exited; not waiting for inhibitor locks"));
}

}  // namespace
}  // namespace talos::machined
