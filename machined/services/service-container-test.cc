// A service's container, with a model of containerd.
#include "machined/services/service-container.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/grpc/test-grpc-server.h"
#include "common/testing/virtual-time.h"
#include "github.com/containerd/containerd/api/services/tasks/v1/tasks.pb.h"

namespace talos::machined {
namespace {

namespace tasks = ::containerd::services::tasks::v1;
namespace types = ::containerd::v1::types;
constexpr const char* kGet = "/containerd.services.tasks.v1.Tasks/Get";

class ContainerBodyTest : public testing::Test {
 public:
  ~ContainerBodyTest() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  grpc::ModelServer server;
  Containerd containerd{
      timer, [this]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> { return server.dial(); }};
  ContainerBody body{containerd, "c", []() { return ContainerSpec(); }};

  void refuse(const char* path, int status, const char* text) {
    server.methods[path] = [=](auto& x) {
      if (x.ended) x.finish(status, text);
    };
  }
  void setStatus(types::Status status) {
    server.methods[kGet] = [status](auto& x) {
      if (!x.ended) return;
      tasks::GetResponse answer;
      answer.mutable_process()->set_id("c");
      answer.mutable_process()->set_pid(7);
      answer.mutable_process()->set_status(status);
      x.send(answer.SerializeAsString());
      x.finish();
    };
  }
};

// Catches: a running container that counts as ended, and is killed, because its shim was slow to
// answer.
TEST_F(ContainerBodyTest, AnUnknownStateOfContainerdIsAskedForAgain) {
  setStatus(types::UNKNOWN);
  auto finding = body.find();
  advance(timer, scope, 5 * kj::SECONDS);
  EXPECT_FALSE(finding.poll(scope));
  setStatus(types::RUNNING);
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_EQ(7, KJ_ASSERT_NONNULL(finding.wait(scope)));
}

// Catches: a service that is no longer watched after a failed call to containerd.
TEST_F(ContainerBodyTest, AnEndIsAwaitedWhateverContainerdSays) {
  refuse("/containerd.services.tasks.v1.Tasks/Wait", 13, "database not open");
  refuse(kGet, 13, "database not open");
  auto ending = body.ended();
  advance(timer, scope, 5 * kj::SECONDS);
  EXPECT_FALSE(ending.poll(scope));
  refuse(kGet, 5, "no such task");
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_TRUE(ending.wait(scope) == nullptr);
}

// Catches: a signal that is given up while containerd is away, and a signal that reaches the next
// instance.
TEST_F(ContainerBodyTest, ASignalComesWhenContainerdIsBackAndToTheSameLife) {
  constexpr const char* kKill = "/containerd.services.tasks.v1.Tasks/Kill";
  refuse(kKill, 14, "shutting down");
  auto signalled = body.signal(15);
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_FALSE(signalled.poll(scope));
  unsigned kills = 0;
  server.methods[kKill] = [&](auto& x) {
    if (!x.ended) return;
    ++kills;
    x.send("");
    x.finish();
  };
  advance(timer, scope, 1 * kj::SECONDS);
  signalled.wait(scope);
  EXPECT_EQ(1u, kills);
}

}  // namespace
}  // namespace talos::machined
