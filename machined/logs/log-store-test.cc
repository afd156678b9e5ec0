#include "machined/logs/log-store.h"

#include <gtest/gtest.h>
#include <kj/async-unix.h>
#include <kj/thread.h>
#include <unistd.h>

#include <atomic>

#include "common/base/error.h"
#include "machined/process1/test-damaged-descriptors.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

class StoreSink final : public rpc::LogSink::Server {
 public:
  struct Received {
    kj::String text = kj::str("");
    uint64_t next = 0, missed = 0;
    bool stopped = false;
    kj::Own<kj::PromiseFulfiller<void>> go;
    kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> arrived;  // fulfilled by the next write
  };
  explicit StoreSink(Received& received) : received(received) {}
  kj::Promise<void> write(WriteContext context) override {
    auto params = context.getParams();
    received.text = kj::str(received.text, params.getBytes().asChars());
    received.next = params.getNext();
    KJ_IF_MAYBE (a, received.arrived) {
      (*a)->fulfill();
    }
    if (!received.stopped) return kj::READY_NOW;
    auto paf = kj::newPromiseAndFulfiller<void>();
    received.go = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }
  kj::Promise<void> missed(MissedContext context) override {
    received.missed += context.getParams().getBytes();
    return kj::READY_NOW;
  }

 private:
  Received& received;
};

struct LogsTest : public testing::Test {
  ~LogsTest() noexcept override {}

  kj::UnixEventPort port;
  kj::EventLoop loop{port};
  kj::WaitScope scope{loop};
  FakeMachine machine;
  kj::Own<FakeProcess1> process1;
  kj::Own<Logs> logs;
  LogsTest() { start(); }

  void die() {
    logs = nullptr;
    process1 = nullptr;
  }
  void start() {
    process1 = kj::heap<FakeProcess1>(machine);
    logs = kj::heap<Logs>(*process1, port);
  }
  kj::String read(kj::StringPtr id, int tail = -1, uint64_t from = 0, kj::StringPtr contains = "") {
    StoreSink::Received received;
    logs->read(id, {.tailLines = tail, .from = from, .contains = kj::str(contains)},
               kj::heap<StoreSink>(received))
        .wait(scope);
    return kj::mv(received.text);
  }
  void say(kj::StringPtr id, kj::StringPtr text) { logs->append(id, text.asArray()); }
  static void put(int fd, kj::StringPtr text) {
    KJ_ASSERT(::write(fd, text.begin(), text.size()) == ssize_t(text.size()));
  }
};

TEST_F(LogsTest, ReadsAllATailOrFromAPosition) {
  say("machined", "one\ntwo\nthree");
  EXPECT_EQ(read("machined"), "one\ntwo\nthree\n");
  EXPECT_EQ(read("machined", 1), "three\n");
  EXPECT_EQ(read("machined", 0), "");
  EXPECT_EQ(read("machined", -1, 4), "two\nthree\n");
  EXPECT_EQ(read("machined", -1, 999), "one\ntwo\nthree\n") << "a position of an earlier boot";
}

// Catches: a controller's line that is missing in the log of all controllers; a daemon that writes
// lines for a controller of machined, or of another daemon; a line that appears twice.
TEST_F(LogsTest, TheLogOfControllersHasThoseOfDaemonsToo) {
  constexpr auto kTime = "time=2021-03-09T13:57:11.042Z level=info ";
  auto line = [&](kj::StringPtr message, kj::StringPtr controller) {
    return kj::str(kTime, "message=\"", message, "\" controller=", controller, "\n");
  };
  auto created = line("created /v1/Secret/x \\\"y\\\"", "k8s.ManifestApplyController");
  say("kubed", kj::str(kTime, "message=\"waiting for mutex\"\n", created,
                       line("no", "secrets.EtcdController"),
                       line("no", "v1alpha1.BootstrapStatusController")));
  say("etcd-supervisor",
      line("bootkube initialized status not found", "v1alpha1.BootstrapStatusController"));
  say("apid", line("no", "k8s.ManifestApplyController"));
  EXPECT_EQ(read("controller-runtime"),
            "2021/03/09 13:57:11  k8s.ManifestApplyController: created /v1/Secret/x \"y\"\n"
            "2021/03/09 13:57:11  v1alpha1.BootstrapStatusController: bootkube initialized status "
            "not found\n");
  EXPECT_EQ(read("kubed", -1, 0, "created"), created);
  scope.poll();
  die();
  start();
  EXPECT_EQ(read("controller-runtime", -1, 0, "created"),
            "2021/03/09 13:57:11  k8s.ManifestApplyController: created /v1/Secret/x \"y\"\n")
      << "after a crash";
}

// Catches: lines that are too old, a tail of all lines instead of those of the time, a brain that
// has lost the times of lines, a follower that waits for old lines.
TEST_F(LogsTest, ReadsLinesSinceATime) {
  kj::TimerImpl time(kj::origin<kj::TimePoint>() + 100 * kj::SECONDS);
  auto restart = [&]() {
    die();
    process1 = kj::heap<FakeProcess1>(machine);
    logs = kj::heap<Logs>(*process1, port, time);
  };
  restart();
  auto since = [&](int64_t seconds, int tail = -1, kj::StringPtr contains = "") {
    StoreSink::Received received;
    logs->read("apid",
               {.tailLines = tail,
                .contains = kj::str(contains),
                .since = kj::origin<kj::TimePoint>() + seconds * kj::SECONDS},
               kj::heap<StoreSink>(received))
        .wait(scope);
    return kj::mv(received.text);
  };
  auto later = [&]() { time.advanceTo(time.now() + 10 * kj::SECONDS); };
  say("apid", "at 100 a\n");
  later();
  say("apid", "at 110 a\nat 110 b\n");
  later();
  say("apid", "at 120 a\n");
  for (int brains = 0; brains < 2; ++brains) {
    EXPECT_EQ(since(90), "at 100 a\nat 110 a\nat 110 b\nat 120 a\n");
    EXPECT_EQ(since(100), "at 100 a\nat 110 a\nat 110 b\nat 120 a\n");
    EXPECT_EQ(since(101), "at 110 a\nat 110 b\nat 120 a\n");
    EXPECT_EQ(since(110), "at 110 a\nat 110 b\nat 120 a\n");
    EXPECT_EQ(since(111), "at 120 a\n");
    EXPECT_EQ(since(121), "");
    EXPECT_EQ(since(101, 2), "at 110 b\nat 120 a\n");
    EXPECT_EQ(since(111, 2), "at 120 a\n");
    EXPECT_EQ(since(101, 9, " a"), "at 110 a\nat 120 a\n");
    EXPECT_EQ(since(111, 9, " b"), "");
    scope.poll();
    restart();
  }
  StoreSink::Received received;
  auto following = logs->read("apid", {.follow = true, .since = time.now() + 1 * kj::SECONDS},
                              kj::heap<StoreSink>(received))
                       .eagerlyEvaluate(nullptr);
  later();
  say("apid", "at 130 a\n");
  following.poll(scope);
  EXPECT_EQ(received.text, "at 130 a\n");
}

// Catches: a tail that is taken before the search, instead of a tail of the matching lines; a
// search of a whole log in one turn of the loop.
TEST_F(LogsTest, ReadsLinesWithAText) {
  say("machined", "one a\ntwo b\nthree a\nfour b\na");
  EXPECT_EQ(read("machined", -1, 0, "a"), "one a\nthree a\na\n");
  EXPECT_EQ(read("machined", 2, 0, "a"), "three a\na\n");
  EXPECT_EQ(read("machined", 9, 0, "a"), "one a\nthree a\na\n");
  EXPECT_EQ(read("machined", 0, 0, "a"), "");
  EXPECT_EQ(read("machined", 1, 0, "b"), "four b\n");
  EXPECT_EQ(read("machined", -1, 6, "a"), "three a\na\n");
  EXPECT_EQ(read("machined", 5, 0, "no such"), "");
  EXPECT_EQ(read("machined", -1, 0, "a\nt"), "");
  for (int i = 0; i < 20'000; ++i) say("apid", kj::str("line ", i, " of many"));
  StoreSink::Received received;
  bool done = false;
  auto reading = logs->read("apid", {.tailLines = 2, .contains = kj::str("7 of")},
                            kj::heap<StoreSink>(received))
                     .then([&done]() { done = true; })
                     .eagerlyEvaluate(nullptr);
  unsigned turns = 0;
  for (; !done && turns < 10'000; ++turns) scope.poll(1);
  EXPECT_TRUE(done);
  EXPECT_GT(turns, 25u);  // 440 KB, in pieces of 32 KiB, twice
  EXPECT_EQ(received.text, "line 19987 of many\nline 19997 of many\n");
}

// Catches: a follower that gets lines without the text, or the wrong position.
TEST_F(LogsTest, FollowsLinesWithAText) {
  StoreSink::Received received;
  say("apid", "a\nb");
  auto following =
      logs->read("apid", {.follow = true, .contains = kj::str("b")}, kj::heap<StoreSink>(received))
          .eagerlyEvaluate(nullptr);
  scope.poll();
  EXPECT_EQ(received.text, "b\n");
  say("apid", "c");
  say("apid", "bb");
  scope.poll();
  EXPECT_EQ(received.text, "b\nbb\n");
  EXPECT_EQ(received.next, 9u);
}

TEST_F(LogsTest, AnUnknownIdIsNotFoundInTheWordsThatScriptsMatch) {
  say("apid", "x");
  say("machined", "x");
  auto e = kj::runCatchingExceptions([&] { read("nope"); });
  ASSERT_TRUE(e != nullptr);
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kNotFound);
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(e)), "log \"nope\" was not registered");
}

// The follower of a flooded log learns how much it missed, and never makes memory grow.
TEST_F(LogsTest, ASlowFollowerLearnsHowMuchItMissed) {
  StoreSink::Received received;
  received.stopped = true;
  say("apid", "begin");
  auto following =
      logs->read("apid", {.follow = true}, kj::heap<StoreSink>(received)).eagerlyEvaluate(nullptr);
  scope.poll();
  EXPECT_EQ(received.text, "begin\n");
  for (int i = 0; i < 200'000; ++i) say("apid", kj::str("line ", i));
  received.stopped = false;
  received.go->fulfill();
  scope.poll();
  EXPECT_EQ(6 + received.missed + (received.text.size() - 6), received.next);
  EXPECT_GT(received.missed, 1'000'000u);
  EXPECT_TRUE(kj::StringPtr(received.text).endsWith("\nline 199999\n"));
  say("apid", "last");
  scope.poll();
  EXPECT_TRUE(kj::StringPtr(received.text).endsWith("\nlast\n"));
}

TEST_F(LogsTest, ACrashOfTheBrainLosesNoLineAndNoPosition) {
  auto fd = logs->writer("apid").wait(scope);
  put(fd, "before\nhal");
  port.poll();
  scope.poll();
  StoreSink::Received received;
  logs->read("apid", {}, kj::heap<StoreSink>(received)).wait(scope);
  EXPECT_EQ(received.text, "before\n");
  die();
  put(fd, "f\nmeanwhile\n");  // the service does not notice
  start();
  received.text = kj::str("");
  auto paf = kj::newPromiseAndFulfiller<void>();
  auto following =
      logs->read("apid", {.follow = true, .from = received.next}, kj::heap<StoreSink>(received))
          .eagerlyEvaluate(nullptr);
  received.arrived = kj::mv(paf.fulfiller);
  paf.promise.wait(scope);
  EXPECT_EQ(received.text, "half\nmeanwhile\n");
  EXPECT_EQ(received.missed, 0u);
}

// A service that exits and starts again writes to the same log, and its exit is not the log's end.
TEST_F(LogsTest, APipeOutlivesItsWriters) {
  StoreSink::Received received;
  {
    auto fd = logs->writer("apid").wait(scope);
  }
  auto following =
      logs->read("apid", {.follow = true}, kj::heap<StoreSink>(received)).eagerlyEvaluate(nullptr);
  die();
  start();
  following =
      logs->read("apid", {.follow = true}, kj::heap<StoreSink>(received)).eagerlyEvaluate(nullptr);
  auto again = logs->writer("apid").wait(scope);
  put(again, "again\n");
  auto paf = kj::newPromiseAndFulfiller<void>();
  received.arrived = kj::mv(paf.fulfiller);
  paf.promise.wait(scope);
  EXPECT_EQ(received.text, "again\n");
}

// With a loop that reads one pipe until it is empty this test never ends.
TEST_F(LogsTest, AFloodingServiceDoesNotStarveTheOthers) {
  auto flood = logs->writer("flood").wait(scope);
  auto quiet = logs->writer("quiet").wait(scope);
  std::atomic<bool> stop = false;
  StoreSink::Received received;
  auto paf = kj::newPromiseAndFulfiller<void>();
  received.arrived = kj::mv(paf.fulfiller);
  auto following =
      logs->read("quiet", {.follow = true}, kj::heap<StoreSink>(received)).eagerlyEvaluate(nullptr);
  int floodFd = flood.get();
  kj::Thread thread([floodFd, &stop] {
    auto line = kj::heapString(4096);
    memset(line.begin(), 'y', 4095);
    line[4095] = '\n';
    while (!stop && ::write(floodFd, line.begin(), 4096) > 0) {
    }
  });
  KJ_DEFER({
    stop = true;
    // The writer may be waiting for room.
    port.getTimer().afterDelay(0 * kj::SECONDS).wait(scope);
    logs = nullptr;
    fcntl(machine.heldFd("pipe/flood"), F_SETFL, O_NONBLOCK);
    char sink[65536];
    while (::read(machine.heldFd("pipe/flood"), sink, sizeof(sink)) > 0) {
    }
  });
  StoreSink::Received floodReceived;
  auto floodPaf = kj::newPromiseAndFulfiller<void>();
  floodReceived.arrived = kj::mv(floodPaf.fulfiller);
  auto floodFollow = logs->read("flood", {.follow = true}, kj::heap<StoreSink>(floodReceived))
                         .eagerlyEvaluate(nullptr);
  floodPaf.promise.wait(scope);  // the flood is running
  floodFollow = nullptr;
  put(quiet, "still here\n");
  paf.promise.wait(scope);
  EXPECT_EQ(received.text, "still here\n");
}

TEST_F(LogsTest, EveryLineIsCopiedToTheTee) {
  kj::Vector<kj::String> copied;
  logs->tee([&](kj::StringPtr id, kj::ArrayPtr<const char> lines) {
    copied.add(kj::str(id, "|", lines));
  });
  say("apid", "a\nb");
  ASSERT_EQ(copied.size(), 1u);
  EXPECT_EQ(copied[0], "apid|a\nb\n");
}

// Process 1 must hold both before a child may write: otherwise a crash in between causes an EPIPE
// or a lost log.
TEST_F(LogsTest, AWriterIsGivenOnlyWhenProcess1HoldsRingAndPipe) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  machine.holdGate = kj::mv(paf.promise);
  auto writer = logs->writer("apid");
  EXPECT_FALSE(writer.poll(scope));
  paf.fulfiller->fulfill();
  EXPECT_TRUE(writer.poll(scope));
  EXPECT_TRUE(machine.holds("log/apid"));
  EXPECT_TRUE(machine.holds("pipe/apid"));
}

// Catches: a brain that crashes on invalid logs or pipes that it finds, as the next brain will,
// too.
TEST_F(LogsTest, WhatCannotBeTakenUpBeginsAnew) {
  for (kj::StringPtr name : {"log/a"_kj, "pipe/a"_kj}) {
    for (auto& bad : garbage("alosolg1")) {
      die();
      machine.drop();
      machine.keep(name, kj::mv(bad.fd));
      for (int brains = 0; brains < 2; ++brains) {
        auto e = kj::runCatchingExceptions([&]() { start(); });
        ASSERT_TRUE(e == nullptr) << bad.what.cStr();
        logs->append("a", "line\n"_kj.asArray());
        scope.poll();
        EXPECT_EQ(logs->ids().size(), 1u);
        auto writer = logs->writer("a").wait(scope);
        EXPECT_EQ(write(writer, "more\n", 5), 5) << bad.what.cStr();
        die();
      }
    }
  }
  start();
}

}  // namespace
}  // namespace talos::machined
