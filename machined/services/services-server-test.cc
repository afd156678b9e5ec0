#include "machined/services/services-server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

class ServicesServerTest : public testing::Test, public kj::Clock {
 protected:
  kj::Date now() const override { return kj::UNIX_EPOCH; }
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  FakeMachine machine;
  FakeProcess1 process1{machine};
  Supervisor supervisor{
      Supervisor::Dependencies{.process1 = process1,
                               .timer = timer,
                               .clock = *this,
                               .random = []() { return 0.0; },
                               .output = [](kj::StringPtr) -> kj::Promise<kj::AutoCloseFd> {
                                 return kj::AutoCloseFd(open("/dev/null", O_WRONLY | O_CLOEXEC));
                               },
                               .announce = [](rpc::ServiceStateEvent::Reader) {}}};
  rpc::Services::Client client = serveServices(supervisor);

  ~ServicesServerTest() noexcept override {}

  void load(kj::StringPtr id, bool stoppable) {
    ServiceDefinition d;
    d.id = kj::str(id);
    d.command = kj::str(id);
    d.argv = kj::arr(kj::str("/", id));
    d.mayBeStopped = stoppable;
    supervisor.load(kj::mv(d));
  }
  template <typename Request>
  kj::String answer(Request request) {
    kj::String text;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&]() { text = kj::str(request.send().wait(scope).getResponse()); })) {
      return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e));
    }
    return text;
  }
  kj::String start(kj::StringPtr id) {
    auto r = client.startRequest();
    r.setId(id);
    return answer(kj::mv(r));
  }
  kj::String stop(kj::StringPtr id) {
    auto r = client.stopRequest();
    r.setId(id);
    return answer(kj::mv(r));
  }
};

// Catches: services out of order, a PID that is not shown.
TEST_F(ServicesServerTest, ListIsSortedAndComplete) {
  load("b", true);
  load("a", true);
  supervisor.loadSelf("machined");
  start("a");
  scope.poll();
  auto services = client.listRequest().send().wait(scope);
  auto list = services.getServices();
  ASSERT_EQ(3u, list.size());
  EXPECT_EQ("a"_kj, list[0].getId());
  EXPECT_EQ(rpc::ServiceState::RUNNING, list[0].getState());
  EXPECT_EQ(100, list[0].getPid());
  EXPECT_EQ("b"_kj, list[1].getId());
  EXPECT_EQ(0, list[1].getPid());
  EXPECT_EQ("machined"_kj, list[2].getId());
  EXPECT_EQ(getpid(), list[2].getPid());
}

// Catches: an unknown service, a forbidden action or a bad signal whose error is that of another
// mistake.
TEST_F(ServicesServerTest, AnswersAndRefusals) {
  load("apid", false);
  load("other", true);
  EXPECT_EQ("Service \"apid\" started", start("apid"));
  EXPECT_EQ(
      "FailedPrecondition: service \"apid\" does not support stop over the API; services that do: "
      "other",
      stop("apid"));
  EXPECT_EQ("Service \"other\" stopped", stop("other"));
  EXPECT_THAT(start("nope").cStr(), HasSubstr("NotFound: service \"nope\""));
  auto kill = client.killRequest();
  kill.setId("apid");
  kill.setSignal(1000);
  try {
    kill.send().wait(scope);
    FAIL();
  } catch (const kj::Exception& e) {
    EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(e));
  }
}

// Catches: a service that is suspended for ever, and looks healthy.
TEST_F(ServicesServerTest, SignalsThatSuspendAreRefused) {
  load("a", true);
  start("a");
  for (int number : {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT}) {
    auto kill = client.killRequest();
    kill.setId("a");
    kill.setSignal(number);
    auto e = kj::runCatchingExceptions([&]() { kill.send().wait(scope); });
    if (number == SIGCONT) {
      EXPECT_TRUE(e == nullptr);
    } else {
      ASSERT_TRUE(e != nullptr) << number;
      EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(KJ_ASSERT_NONNULL(e)));
      EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(e)).cStr(), HasSubstr(kj::str("SIG").cStr()));
    }
  }
  ASSERT_EQ(1u, machine.child("a").signals.size());
  EXPECT_EQ(SIGCONT, machine.child("a").signals[0]);
}

}  // namespace
}  // namespace talos::machined
