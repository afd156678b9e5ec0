#include "machined/logs/log-feed.h"

#include <gtest/gtest.h>
#include <kj/async-unix.h>

#include <map>
#include <string>

#include "common/base/error.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

using config::LogStream;

class FeedCollector final : public rpc::LogFeedSink::Server {
 public:
  struct Got {
    std::string boot, all;
    std::map<std::string, uint64_t> next, missed;
    kj::Maybe<kj::ForkedPromise<void>> wait;  // awaited before a call returns
    uint64_t bytes = 0;
  };
  explicit FeedCollector(Got& got) : got(got) {}

 protected:
  kj::Promise<void> begin(BeginContext context) override {
    got.boot = kj::str(context.getParams().getBoot()).cStr();
    return kj::READY_NOW;
  }
  kj::Promise<void> lines(LinesContext context) override {
    auto params = context.getParams();
    std::string id = kj::str(params.getId()).cStr();
    if (params.getStream() == LogStream::EVENTS) {
      got.all += "event;";
    } else {
      got.all += kj::str(id.c_str(), ":", params.getBytes().asChars(), ";").cStr();
    }
    got.bytes += params.getBytes().size();
    if (params.getNext() > 0) got.next[id] = params.getNext();
    KJ_IF_MAYBE (w, got.wait) return w->addBranch();
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext context) override {
    auto params = context.getParams();
    got.missed[kj::str(params.getId()).cStr()] += params.getCount();
    return kj::READY_NOW;
  }

 private:
  Got& got;
};

struct LogFeedTest : public testing::Test {
  ~LogFeedTest() noexcept override {}

  kj::UnixEventPort port;
  kj::EventLoop loop{port};
  kj::WaitScope scope{loop};
  FakeMachine machine;
  kj::Own<FakeProcess1> process1 = kj::heap<FakeProcess1>(machine);
  kj::Own<Logs> logs = kj::heap<Logs>(*process1, port);
  kj::Own<Events> events = kj::heap<Events>(kj::systemPreciseCalendarClock(), *process1);
  uint64_t kernelFrom = 77;
  FeedCollector::Got got;

  rpc::LogFeed::Client feed() {
    return serveLogFeed(
        *logs, *events, kj::str("boot-2"),
        [this](uint64_t from, rpc::LogSink::Client sink) -> kj::Promise<void> {
          kernelFrom = from;
          auto request = sink.writeRequest();
          request.setBytes("6,1,5;text\n"_kj.asBytes());
          request.setNext(6);
          return request.send().then([]() { return kj::Promise<void>(kj::NEVER_DONE); });
        });
  }
  kj::Promise<void> follow(kj::ArrayPtr<const LogStream> streams, kj::StringPtr boot = "boot-2") {
    auto request = feed().followRequest();
    request.setStreams(streams);
    request.setBoot(boot);
    auto known = request.initKnown(got.next.size());
    unsigned i = 0;
    for (auto& entry : got.next) {
      known[i].setStream(entry.first == "audit" ? LogStream::AUDIT : LogStream::SERVICES);
      known[i].setId(entry.first.c_str());
      known[i++].setNext(entry.second);
    }
    request.setSink(kj::heap<FeedCollector>(got));
    auto following = request.send().ignoreResult().eagerlyEvaluate(nullptr);
    scope.poll();
    return following;
  }
  void say(kj::StringPtr id, kj::StringPtr text) { logs->append(id, text.asArray()); }
};

// Catches: a stream with the lines of another; a new log that is not followed; lines that are
// repeated or lost after the follower, or the brain, was replaced.
TEST_F(LogFeedTest, FollowsEachLogFromItsPosition) {
  say("apid", "1");
  say("audit", "secretive");
  LogStream services[] = {LogStream::SERVICES};
  {
    auto following = follow(services);
    EXPECT_EQ("boot-2", got.boot);
    say("apid", "2");
    say("trustd", "new");
    scope.poll();
    EXPECT_EQ("apid:1\n;apid:2\n;trustd:new\n;", got.all);
  }
  say("apid", "3");
  logs = nullptr;
  events = nullptr;
  process1 = kj::heap<FakeProcess1>(machine);
  logs = kj::heap<Logs>(*process1, port);
  events = kj::heap<Events>(kj::systemPreciseCalendarClock(), *process1);
  got.all = "";
  auto again = follow(services);
  EXPECT_EQ("apid:3\n;", got.all);
  EXPECT_EQ(77u, kernelFrom);
  // Positions of another boot have no meaning.
  got.all = "";
  auto other = follow(services, "boot-1");
  EXPECT_EQ("apid:1\n2\n3\n;trustd:new\n;", got.all);
}

TEST_F(LogFeedTest, HasEachStream) {
  say("apid", "1");
  say("audit", "call");
  events->task("t", rpc::Action::START);
  LogStream all[] = {LogStream::SERVICES, LogStream::AUDIT, LogStream::EVENTS, LogStream::KERNEL};
  auto following = follow(all);
  EXPECT_EQ(0u, kernelFrom);
  for (auto part : {"apid:1\n;", "audit:call\n;", "event;", ":6,1,5;text\n;"}) {
    EXPECT_NE(std::string::npos, got.all.find(part)) << part << " in " << got.all;
  }
  got.all = "";
  events->task("t", rpc::Action::STOP);
  scope.poll();
  EXPECT_EQ("event;", got.all);
}

// Catches: memory that grows with a follower that does not read; missed lines that are not counted.
TEST_F(LogFeedTest, ASlowFollowerLearnsWhatItMissed) {
  LogStream services[] = {LogStream::SERVICES};
  say("apid", "first");
  auto paf = kj::newPromiseAndFulfiller<void>();
  got.wait = paf.promise.fork();
  auto following = follow(services);
  for (unsigned i = 0; i < 100'000; ++i) say("apid", kj::str("line ", i, " and more text"));
  scope.poll();
  auto before = got.bytes;
  EXPECT_LT(before, 512u << 10);
  paf.fulfiller->fulfill();
  got.wait = nullptr;
  scope.poll();
  EXPECT_GT(got.missed["apid"], 1'000'000u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(logs->ring("apid")).newest(), got.next["apid"]);
  EXPECT_EQ(got.next["apid"], got.missed["apid"] + got.bytes);
}

TEST_F(LogFeedTest, HasABoundOfFollowers) {
  LogStream services[] = {LogStream::SERVICES};
  auto one = feed();
  kj::Vector<kj::Promise<void>> all;
  auto open = [&]() {
    auto request = one.followRequest();
    request.setStreams(services);
    request.setSink(kj::heap<FeedCollector>(got));
    return request.send().ignoreResult();
  };
  for (unsigned i = 0; i < kMostLogFollowers; ++i) all.add(open().eagerlyEvaluate(nullptr));
  scope.poll();
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { open().wait(scope); })) {
    EXPECT_EQ(ErrorKind::kResourceExhausted, kindOf(*e));
  } else {
    ADD_FAILURE() << "one more was accepted";
  }
  all.clear();
  scope.poll();
  auto next = open().eagerlyEvaluate(nullptr);
  scope.poll();
  EXPECT_EQ("boot-2", got.boot);
}

}  // namespace
}  // namespace talos::machined
