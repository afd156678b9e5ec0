#include "common/wire/request-trace.h"

#include <capnp/rpc-twoparty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <set>
#include <string>

#include "common/base/error.h"
#include "common/base/waits.h"
#include "rpc/node.capnp.h"

namespace talos {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Catches: an id that makes two fields of a log line, or fills the line; an id that is longer than
// the text of a wait can show.
TEST(RequestId, IsPlainAndShort) {
  for (auto good : {"a", "3f2a91c0-17", "0b0e2a6c-6a3f-4b7e-8a53-6f2f6c1d2e3f", "A_b.c"}) {
    EXPECT_TRUE(isRequestId(good)) << good;
  }
  EXPECT_TRUE(isRequestId(kj::str(kj::repeat('x', 64))));
  for (auto bad : {"", "a b", "a=b", "a\nb", "\"a\"", "a/b", "\xc3\xa4", "a\x7f"}) {
    EXPECT_FALSE(isRequestId(bad)) << bad;
  }
  EXPECT_FALSE(isRequestId(kj::str(kj::repeat('x', 65))));
}

// Catches: two requests with one id; a client whose own id is lost, or whose bad one is kept.
TEST(RequestId, IsMadeWhereTheClientHasNone) {
  RequestIds ids(0x3f2a91c0);
  EXPECT_EQ(ids.next(), "3f2a91c0-1"_kj);
  EXPECT_EQ(ids.orNext("mine"), "mine"_kj);
  EXPECT_EQ(ids.orNext("not mine"), "3f2a91c0-2"_kj);
  EXPECT_EQ(ids.orNext(""), "3f2a91c0-3"_kj);
  EXPECT_TRUE(isRequestId(ids.next()));
}

class TracedServices final : public rpc::Services::Server {
 protected:
  kj::Promise<void> restart(RestartContext context) override {
    if (context.getParams().getId() != "apid") fail(ErrorKind::kNotFound, "no such service");
    context.getResults().setResponse("restarted");
    return kj::READY_NOW;
  }
  kj::Promise<void> stop(StopContext) override { return kj::NEVER_DONE; }
  kj::Promise<void> list(ListContext) override { return kj::READY_NOW; }
};

// Its version() fails in the node, its memory() because of the caller.
class TracedMachine final : public rpc::Machine::Server {
 protected:
  kj::Promise<void> version(VersionContext) override {
    fail(ErrorKind::kUnavailable, "no answer from the disk");
  }
  kj::Promise<void> memory(MemoryContext) override {
    fail(ErrorKind::kInvalidArgument, "no such memory");
  }
  kj::Promise<void> mounts(MountsContext) override { return kj::NEVER_DONE; }
};

class TracedLogs final : public rpc::Logs::Server {
 protected:
  kj::Promise<void> read(ReadContext) override { return kj::NEVER_DONE; }
};

class TracedNode final : public rpc::Node::Server {
 protected:
  kj::Promise<void> services(ServicesContext context) override {
    context.getResults().setServices(kj::heap<TracedServices>());
    return kj::READY_NOW;
  }
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<TracedMachine>());
    return kj::READY_NOW;
  }
  kj::Promise<void> logs(LogsContext context) override {
    context.getResults().setLogs(kj::heap<TracedLogs>());
    return kj::READY_NOW;
  }
};

struct ClockOfTest final : kj::MonotonicClock {
  kj::TimePoint time = kj::origin<kj::TimePoint>();
  kj::TimePoint now() const override { return time; }
};

// A daemon and its caller.
struct RequestTraces : testing::Test {
  ~RequestTraces() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  Rules rules{capnp::Schema::from<rpc::Node>()};
  ClockOfTest clock;
  RequestTrace trace{clock, rules};
  kj::TwoWayPipe pipe = io.provider->newTwoWayPipe();
  capnp::TwoPartyClient server{*pipe.ends[0], traced("r-1"), capnp::rpc::twoparty::Side::SERVER};
  capnp::TwoPartyClient client{*pipe.ends[1]};
  rpc::Node::Client node = client.bootstrap().castAs<rpc::Node>();

  rpc::Node::Client traced(kj::StringPtr id) {
    return trace.traced<rpc::Node>(rpc::Node::Client(kj::heap<TracedNode>()), id);
  }
  rpc::Services::Client services() { return node.servicesRequest().send().getServices(); }
  rpc::Machine::Client machine() { return node.machineRequest().send().getMachine(); }
  template <typename T>
  std::string logOf(T promise) {
    ::testing::internal::CaptureStderr();
    kj::runCatchingExceptions([&] { promise.ignoreResult().wait(io.waitScope); });
    return ::testing::internal::GetCapturedStderr();
  }
  static std::multiset<std::string> waits() {
    std::multiset<std::string> texts;
    Wait::forEach([&](const char* text, uint64_t) { texts.insert(text); });
    return texts;
  }
};

// Catches: a call that is not seen while it runs, or is seen for ever; a capability in an answer
// whose calls are lost; a change whose lines do not name the request.
TEST_F(RequestTraces, ACallIsListedUntilItEnds) {
  ::testing::internal::CaptureStderr();
  {
    auto stopping = services().stopRequest().send();
    EXPECT_FALSE(stopping.poll(io.waitScope));
    EXPECT_THAT(waits(), ElementsAre("call Services.stop, request r-1"));
  }
  io.waitScope.poll();
  EXPECT_THAT(waits(), IsEmpty());
  auto log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("message=\"call began\" method=Services.stop request=r-1\n"));
  EXPECT_THAT(log, HasSubstr("message=\"call ended\" method=Services.stop request=r-1 "
                             "result=Cancelled microseconds="));
}

// Catches: an answer or an error that does not pass; parameters in the log.
TEST_F(RequestTraces, AChangeHasItsOutcomeInTheLog) {
  auto restart = [&](kj::StringPtr id) {
    auto request = services().restartRequest();
    request.setId(id);
    return request.send();
  };
  EXPECT_EQ(restart("apid").wait(io.waitScope).getResponse(), "restarted"_kj);
  EXPECT_THAT(logOf(restart("apid")), HasSubstr("request=r-1 result=OK"));
  auto failed = logOf(restart("etcd"));
  EXPECT_THAT(failed, HasSubstr("level=info message=\"call failed\" method=Services.restart "
                                "request=r-1 error=\"NotFound: no such service\""));
  EXPECT_THAT(failed, Not(HasSubstr("etcd")));
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { restart("etcd").wait(io.waitScope); })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kNotFound);
    EXPECT_EQ(messageOf(*e), "no such service"_kj);
  } else {
    ADD_FAILURE() << "it did not fail";
  }
}

// Catches: lines for each call that only reads; a failure of the node without a line; a client that
// fills the log with lines about its calls or its mistakes.
TEST_F(RequestTraces, CallsThatReadHaveALineWhenTheNodeFails) {
  EXPECT_EQ(logOf(services().listRequest().send()), "");
  EXPECT_EQ(logOf(machine().memoryRequest().send()), "");
  EXPECT_THAT(logOf(machine().versionRequest().send()),
              HasSubstr("level=warning message=\"call failed\" method=Machine.version request=r-1 "
                        "error=\"Unavailable: no answer from the disk\""));
  unsigned lines = 0;
  for (unsigned i = 0; i < 200; ++i) {
    if (logOf(machine().versionRequest().send()) != "") ++lines;
  }
  EXPECT_EQ(lines, 4u);  // and the first one
  clock.time += 2 * kj::MINUTES;
  auto next = logOf(machine().versionRequest().send());
  EXPECT_THAT(next, HasSubstr("lines about a request were suppressed\" request=r-1 count=196\n"));
  EXPECT_THAT(next, HasSubstr("call failed"));
}

// Catches: a call that hangs and leaves no line, as its caller gave up first; a line for each
// stream that its reader has seen enough of.
TEST_F(RequestTraces, ACallThatWasGivenUpLateHasALine) {
  auto give = [&](auto make, kj::Duration after) {
    ::testing::internal::CaptureStderr();
    {
      auto call = make();
      EXPECT_FALSE(call.poll(io.waitScope));
      clock.time += after;
    }
    io.waitScope.poll();
    return ::testing::internal::GetCapturedStderr();
  };
  auto mounts = [&] { return machine().mountsRequest().send(); };
  auto read = [&] { return node.logsRequest().send().getLogs().readRequest().send(); };
  EXPECT_EQ(give(mounts, 1 * kj::SECONDS), "");
  EXPECT_THAT(give(mounts, 30 * kj::SECONDS),
              HasSubstr("level=warning message=\"call ended\" method=Machine.mounts request=r-1 "
                        "result=Cancelled microseconds=30000000"));
  EXPECT_EQ(give(read, 30 * kj::SECONDS), "");
}

// Catches: a program with its own log whose lines go only to standard error.
TEST_F(RequestTraces, LinesGoToTheProgramsOwnLog) {
  std::vector<std::string> kept;
  RequestTrace own(clock, rules,
                   RequestTrace::Keep([&](kj::StringPtr line) { kept.push_back(line.cStr()); }));
  auto pair = io.provider->newTwoWayPipe();
  capnp::TwoPartyClient serves(*pair.ends[0], own.traced<rpc::Node>(kj::heap<TracedNode>(), "r-2"),
                               capnp::rpc::twoparty::Side::SERVER);
  capnp::TwoPartyClient calls(*pair.ends[1]);
  auto services = calls.bootstrap().castAs<rpc::Node>().servicesRequest().send().getServices();
  auto request = services.restartRequest();
  request.setId("apid");
  EXPECT_EQ(logOf(request.send()), "");
  EXPECT_THAT(
      kept, ElementsAre(
                "level=info message=\"call began\" method=Services.restart request=r-2",
                HasSubstr("message=\"call ended\" method=Services.restart request=r-2 result=OK")));
  kept.clear();
  auto fail = [&] {
    auto machine = calls.bootstrap().castAs<rpc::Node>().machineRequest().send().getMachine();
    return logOf(machine.versionRequest().send());
  };
  for (unsigned i = 0; i < 20; ++i) EXPECT_EQ(fail(), "");
  EXPECT_EQ(kept.size(), 5u);
  clock.time += 2 * kj::MINUTES;
  EXPECT_EQ(fail(), "");
  EXPECT_THAT(kept, Contains(std::string("level=warning message=\"lines about a request were "
                                         "suppressed\" request=r-2 count=15")));
}

// Catches: a foreign id that writes arbitrary text into the log.
TEST_F(RequestTraces, WithoutAValidIdNothingIsTraced) {
  for (kj::StringPtr id : {""_kj, "a b"_kj}) {
    auto plain = traced(id);
    auto pair = io.provider->newTwoWayPipe();
    capnp::TwoPartyClient serves(*pair.ends[0], plain, capnp::rpc::twoparty::Side::SERVER);
    capnp::TwoPartyClient calls(*pair.ends[1]);
    auto services = calls.bootstrap().castAs<rpc::Node>().servicesRequest().send().getServices();
    auto stopping = services.stopRequest().send();
    EXPECT_FALSE(stopping.poll(io.waitScope));
    EXPECT_THAT(waits(), IsEmpty()) << id.cStr();
  }
}

}  // namespace
}  // namespace talos
