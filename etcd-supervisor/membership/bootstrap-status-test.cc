#include "etcd-supervisor/membership/bootstrap-status.h"

#include <gtest/gtest.h>

#include "common/etcd/test-etcd.h"

namespace talos::supervisor {
namespace {

struct BootstrapStatusTest : public testing::Test, public EtcdEndpoints {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  etcd::ModelCluster cluster{timer};
  etcd::ModelEtcd local{cluster};
  bool runs = true;
  std::string published;
  BootstrapStatus status{{timer, [this] { return runs; }, *this,
                          [this](bool selfHosted) -> kj::Promise<void> {
                            published += selfHosted ? "y" : "n";
                            return kj::READY_NOW;
                          }}};
  kj::Promise<void> running = nullptr;

  BootstrapStatusTest() {}
  ~BootstrapStatusTest() noexcept override {}
  etcd::Etcd& at(kj::StringPtr address) override {
    EXPECT_EQ(kLocal, address);
    return local;
  }
  void begin() { running = status.run().eagerlyEvaluate(nullptr); }
  void pass(kj::Duration time) {
    for (auto end = timer.now() + time; timer.now() < end;) {
      scope.poll();
      timer.advanceTo(kj::min(end, timer.now() + 100 * kj::MILLISECONDS));
    }
    scope.poll();
  }
  void setKey(kj::StringPtr value) {
    local.put({.key = kj::str("initialized"), .value = kj::str(value)}).wait(scope);
  }
};

// Catches: static pods beside an etcd that has not answered yet, or beside an older control plane.
TEST_F(BootstrapStatusTest, PublishesWhenEtcdAnswers) {
  local.faults.unreachable = true;
  begin();
  pass(5 * kj::SECONDS);
  EXPECT_EQ("", published);
  local.faults.unreachable = false;
  testing::internal::CaptureStderr();
  pass(2 * kj::SECONDS);
  auto logged = testing::internal::GetCapturedStderr();
  EXPECT_EQ("n", published);
  EXPECT_NE(logged.find("message=\"bootkube initialized status not found\" "
                        "controller=v1alpha1.BootstrapStatusController"),
            std::string::npos)
      << logged;
}

TEST_F(BootstrapStatusTest, NothingIsAskedWhileEtcdDoesNotRun) {
  runs = false;
  begin();
  pass(5 * kj::SECONDS);
  EXPECT_EQ("", published);
  EXPECT_TRUE(local.calls.empty());
}

TEST_F(BootstrapStatusTest, AnOlderControlPlaneIsInChargeUntilItsKeyGoes) {
  setKey("true");
  begin();
  pass(2 * kj::SECONDS);
  EXPECT_EQ("y", published.substr(0, 1));
  local.remove({.keys = {kj::str("initialized")}}).wait(scope);
  pass(6 * kj::SECONDS);
  EXPECT_EQ('n', published.back());
}

}  // namespace
}  // namespace talos::supervisor
