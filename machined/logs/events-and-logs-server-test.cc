#include "machined/logs/events-and-logs-server.h"

#include <gtest/gtest.h>
#include <kj/async-unix.h>
#include <kj/vector.h>

#include "common/base/error.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

class Nobody final : public rpc::LogSink::Server {
 public:
  kj::Promise<void> write(WriteContext) override { return kj::NEVER_DONE; }
};
class Deaf final : public rpc::EventSink::Server {
 public:
  kj::Promise<void> events(EventsContext) override { return kj::NEVER_DONE; }
};

struct TelemetryServerTest : testing::Test {
  ~TelemetryServerTest() noexcept override {}
  kj::UnixEventPort port;
  kj::EventLoop loop{port};
  kj::WaitScope scope{loop};
  FakeMachine machine;
  FakeProcess1 process1{machine};
  Events events{kj::systemPreciseCalendarClock(), process1};
  Logs logs{process1, port};
  kj::Own<NodeCalls> node = kj::refcounted<NodeCalls>();
  unsigned descriptors = 0;  // open descriptors of the kernel's log

  kj::Own<ClientCalls> client() { return kj::refcounted<ClientCalls>(kj::addRef(*node)); }
  rpc::Logs::Client logsOf(kj::Own<ClientCalls> calls) {
    return serveLogs(
        logs,
        [this](rpc::Logs::KernelParams::Reader) -> kj::Promise<void> {
          ++descriptors;
          return kj::Promise<void>(kj::NEVER_DONE).attach(kj::defer([this]() { --descriptors; }));
        },
        [](rpc::Logs::PreviousParams::Reader) -> kj::Promise<void> { return kj::READY_NOW; },
        kj::mv(calls));
  }
  // Opens as many streams as are allowed.
  template <typename F>
  unsigned openAll(kj::Vector<kj::Promise<void>>& open, F&& begin) {
    for (unsigned count = 0;; ++count) {
      kj::Promise<void> call = begin();
      if (call.poll(scope)) {
        auto e = kj::runCatchingExceptions([&]() { call.wait(scope); });
        EXPECT_EQ(ErrorKind::kResourceExhausted, kindOf(KJ_ASSERT_NONNULL(e)));
        return count;
      }
      open.add(kj::mv(call));
      if (count > 10'000) return count;
    }
  }
};

// Catches: descriptors and buffers for an unlimited number of readers.
TEST_F(TelemetryServerTest, StreamsAreBoundedForAClient) {
  logs.append("a", "line\n"_kj.asArray());
  auto calls = client();
  auto logClient = logsOf(kj::addRef(*calls));
  auto eventClient = serveEvents(
      events,
      [](rpc::Events::PreviousParams::Reader) -> kj::Promise<void> { return kj::READY_NOW; },
      kj::addRef(*calls));
  kj::Vector<kj::Promise<void>> open;
  auto kernel = [&]() {
    auto request = logClient.kernelRequest();
    request.setFollow(true);
    request.setSink(kj::heap<Nobody>());
    return request.send().ignoreResult();
  };
  auto follow = [&]() {
    auto request = logClient.readRequest();
    request.setId("a");
    request.setFollow(true);
    request.setSink(kj::heap<Nobody>());
    return request.send().ignoreResult();
  };
  auto watch = [&]() {
    auto request = eventClient.watchRequest();
    request.setSink(kj::heap<Deaf>());
    return request.send().ignoreResult();
  };
  EXPECT_EQ(limitOf(CallKind::kKernelLog).perClient, openAll(open, kernel));
  EXPECT_EQ(descriptors, open.size());
  EXPECT_EQ(limitOf(CallKind::kStream).perClient, openAll(open, follow));
  EXPECT_EQ(0u, openAll(open, watch)) << "logs and events are streams of one client";
  auto other = logsOf(client());
  auto request = other.kernelRequest();
  request.setSink(kj::heap<Nobody>());
  EXPECT_FALSE(request.send().ignoreResult().poll(scope)) << "another client pays for it";
  open.clear();
  scope.poll();
  EXPECT_EQ(0u, node->count(CallKind::kStream));
  EXPECT_EQ(0u, node->count(CallKind::kKernelLog));
  EXPECT_EQ(limitOf(CallKind::kStream).perClient, openAll(open, watch));
}

}  // namespace
}  // namespace talos::machined
