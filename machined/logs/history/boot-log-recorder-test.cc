#include "machined/logs/history/boot-log-recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <string>

#include "common/base/error.h"
#include "common/testing/test-tree.h"
#include "machined/logs/history/test-full-disk.h"
#include "machined/process1/test-busy-thread-pool.h"
#include "machined/process1/test-process1.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

struct Texts final : public rpc::LogSink::Server {
  explicit Texts(std::string& text) : text(text) {}
  kj::Promise<void> write(WriteContext context) override {
    auto bytes = context.getParams().getBytes().asChars();
    text += std::string(bytes.begin(), bytes.size());
    return kj::READY_NOW;
  }
  std::string& text;
};
struct Names final : public rpc::EventSink::Server {
  explicit Names(std::string& names) : names(names) {}
  kj::Promise<void> events(EventsContext context) override {
    for (auto event : context.getParams().getEvents()) {
      names += std::string(event.getTask().getName().cStr()) + " ";
    }
    return kj::READY_NOW;
  }
  std::string& names;
};

struct BootRecorderTest : testing::Test {
  ~BootRecorderTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ReadPool pool{io.provider->getTimer(), {}, [](kj::StringPtr) {}};
  Registry registry;
  TestClock clock;
  TestTree tree;
  FakeMachine machine;
  kj::String folder = tree.at("boots"), pstore = tree.at("pstore"), issued = tree.at("issued");
  kj::Vector<kj::String> said;

  // The recording part of a brain; its destruction simulates a crash.
  struct Brain {
    FakeProcess1 process1;
    Logs logs;
    Events events;
    Store store;
    BootRecorder recorder;
    Brain(BootRecorderTest& test, kj::StringPtr boot)
        : process1(test.machine),
          logs(process1, test.io.unixEventPort),
          events(test.clock, process1),
          store(test.registry, test.clock),
          recorder(BootRecorder::Dependencies{
              .uv = test.uv,
              .timer = test.timer,
              .clock = test.clock,
              .logs = logs,
              .events = events,
              .store = store,
              .bootId = kj::str(boot),
              .version = kj::str("v1"),
              .say = [&test](kj::StringPtr line) { test.said.add(kj::str(line)); },
              .folder = test.folder,
              .pstore = test.pstore,
              .issuedFile = test.issued}) {}
  };
  kj::Own<Brain> start(kj::StringPtr boot, bool kept = true) {
    auto brain = kj::heap<Brain>(*this, boot);
    brain->recorder.begin(kept).wait(io.waitScope);
    return brain;
  }
  kj::Own<Brain> startNextBoot(kj::StringPtr boot) {
    machine.drop();
    return start(boot);
  }
  // Waits until the contents of the rings are on disk.
  void untilRecorded(kj::StringPtr boot, kj::StringPtr source, const char* part) {
    auto& real = io.provider->getTimer();
    auto deadline = real.now() + 10 * kj::SECONDS;
    for (;;) {
      KJ_IF_MAYBE (text, BootStore(folder).read(boot, source)) {
        if (std::string(text->begin(), text->size()).find(part) != std::string::npos) return;
      }
      KJ_REQUIRE(real.now() < deadline, "nothing was recorded", boot, source, part);
      timer.advanceTo(timer.now() + kRecordPause);
      real.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
  }
  std::string previous(Brain& brain, kj::StringPtr id, int tail = -1, kj::StringPtr boot = "",
                       kj::StringPtr contains = "") {
    std::string text;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   brain.recorder
                       .readLog(pool.of(0), kj::str(id), kj::str(boot), tail, kj::heap<Texts>(text),
                                kj::str(contains))
                       .wait(io.waitScope);
                 })) {
      text = std::string(nameOf(kindOf(*e)).cStr()) + ": " + messageOf(*e).cStr();
    }
    return text;
  }
  static std::string reasonOf(Brain& brain, kj::StringPtr boot) {
    KJ_IF_MAYBE (found, brain.store.tryGet<rpc::BootRecordSpec>(boot)) {
      return kj::StringPtr(found->getReason()).cStr();
    }
    return "no record";
  }
};

// Catches: logs, the audit log or events that a power cut loses, and lines that a crash of the
// brain loses or doubles.
TEST_F(BootRecorderTest, ABootIsReadAfterThePowerWasCut) {
  auto brain = start("b1");
  brain->logs.append("apid", "one\n"_kj);
  brain->logs.append("audit", "client=eve\n"_kj);
  brain->events.task("t1", rpc::Action::START);
  untilRecorded("b1", "apid", "one\n");
  brain->logs.append("apid", "two\n"_kj);
  io.waitScope.poll();  // process 1 holds the rings
  brain = nullptr;
  brain = start("b1");
  brain->logs.append("apid", "three\n"_kj);
  untilRecorded("b1", "apid", "three\n");
  brain = nullptr;
  brain = startNextBoot("b2");
  EXPECT_EQ("one\ntwo\nthree\n", previous(*brain, "apid"));
  EXPECT_EQ("two\nthree\n", previous(*brain, "apid", 2));
  EXPECT_EQ("", previous(*brain, "apid", 0));
  EXPECT_EQ("one\nthree\n", previous(*brain, "apid", -1, "", "e"));
  EXPECT_EQ("one\n", previous(*brain, "apid", 1, "", "one"));
  EXPECT_EQ("client=eve\n", previous(*brain, "audit"));
  EXPECT_EQ("one\ntwo\nthree\n", previous(*brain, "apid", -1, "b1"));
  std::string names;
  brain->recorder.readEvents(pool.of(0), kj::str(), kj::heap<Names>(names)).wait(io.waitScope);
  EXPECT_EQ("t1 ", names);
  EXPECT_EQ("the machine was reset or lost its power", reasonOf(*brain, "b1"));
  EXPECT_EQ("", reasonOf(*brain, "b2"));
}

// Catches: a reason that is lost in the shutdown, missing last lines of a shutdown, and files that
// prevent STATE from being unmounted.
TEST_F(BootRecorderTest, TheReasonAndTheEndAreKept) {
  auto brain = start("b1");
  brain->recorder.reason(kj::str("reboot, asked for by admin")).wait(io.waitScope);
  EXPECT_EQ("reboot, asked for by admin", BootStore(folder).list()[0].reason);
  brain->logs.append("machined", "the last line\n"_kj);
  brain->recorder.end().wait(io.waitScope);
  untilRecorded("b1", "machined", "the last line\n");
  EXPECT_THAT(previous(*brain, "machined"), HasSubstr("Unavailable: the node is shutting down"));
  brain = startNextBoot("b2");
  EXPECT_EQ("reboot, asked for by admin", reasonOf(*brain, "b1"));
  EXPECT_EQ("the last line\n", previous(*brain, "machined"));
}

// Catches: a crash log that stays in the firmware until it is full, or that shows the token of the
// command line.
TEST_F(BootRecorderTest, TheKernelsLastWordsGoToTheBootThatSaidThem) {
  start("b1");
  tree.directory("pstore");
  tree.file("pstore/dmesg-efi-2", "Panic#2 Part1\n<5> talos.config=http://h/?geheim\n", 0600);
  auto brain = startNextBoot("b2");
  EXPECT_EQ("Panic#2 Part1\n<5> talos.config=http://h/?***\n",
            previous(*brain, "kernel-last-words"));
  EXPECT_EQ("kernel panic", reasonOf(*brain, "b1"));
  EXPECT_NE(0, access(tree.at("pstore/dmesg-efi-2").cStr(), F_OK));
}

// Catches: a machine without STATE that writes to memory, or does not report it.
TEST_F(BootRecorderTest, WithoutAStateNothingIsKept) {
  auto brain = start("b1", false);
  brain->recorder.begin(false).wait(io.waitScope);
  brain->recorder.reason(kj::str("x")).wait(io.waitScope);
  brain->recorder.end().wait(io.waitScope);
  EXPECT_EQ(0u, BootStore(folder).list().size());
  ASSERT_EQ(1u, said.size());
  EXPECT_THAT(said[0].cStr(), HasSubstr("no STATE"));
  EXPECT_THAT(previous(*brain, "apid"), HasSubstr("FailedPrecondition: there is no STATE"));
}

// Catches: an error that does not list the existing boots or logs.
TEST_F(BootRecorderTest, WhatIsUnknownIsSaid) {
  auto brain = start("b1");
  EXPECT_EQ("NotFound: no earlier boot is recorded", previous(*brain, "apid"));
  brain->logs.append("apid", "one\n"_kj);
  untilRecorded("b1", "apid", "one\n");
  brain = startNextBoot("b2");
  EXPECT_EQ("NotFound: unknown log \"x\" of boot b1; use one of apid", previous(*brain, "x"));
  EXPECT_EQ("NotFound: unknown boot \"b9\"; use one of b1", previous(*brain, "x", -1, "b9"));
  EXPECT_THAT(previous(*brain, "boot"), HasSubstr("NotFound"));
}

// Catches: a failing disk that ends the boot, that is reported every two seconds, or after whose
// repair nothing is kept.
TEST_F(BootRecorderTest, ADiskThatFailsIsReportedOnce) {
  tree.file("boots", "not a folder");
  auto brain = start("b1");
  brain->logs.append("apid", "one\n"_kj);
  auto& real = io.provider->getTimer();
  for (int i = 0; i < 50; ++i) {
    timer.advanceTo(timer.now() + kRecordPause);
    real.afterDelay(2 * kj::MILLISECONDS).wait(io.waitScope);
  }
  ASSERT_EQ(1u, said.size());
  EXPECT_THAT(said[0].cStr(), HasSubstr("cannot keep the record of this boot"));
  ASSERT_EQ(0, unlink(tree.at("boots").cStr()));
  untilRecorded("b1", "apid", "one\n");
}

// Catches: lines that are written again because later lines could not be written.
TEST_F(BootRecorderTest, AFullDiskDoublesNothing) {
  auto brain = start("b1");
  brain->logs.append("a", "one\n"_kj);
  brain->logs.append("b", kj::str(kj::repeat('x', 8000), "\n"));
  auto& real = io.provider->getTimer();
  {
    FileLimit full(4096);
    auto deadline = real.now() + 10 * kj::SECONDS;
    while (said.size() == 0) {
      KJ_REQUIRE(real.now() < deadline, "the disk is not full");
      timer.advanceTo(timer.now() + kRecordPause);
      real.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
  }
  untilRecorded("b1", "b", "xx\n");
  brain = startNextBoot("b2");
  EXPECT_EQ("one\n", previous(*brain, "a"));
}

// Catches: a hanging disk that prevents the machine from booting, a new brain from serving, or the
// machine from shutting down.
TEST_F(BootRecorderTest, ADiskThatHangsKeepsNobody) {
  auto brain = kj::heap<Brain>(*this, "b1");
  HeldPool hanging(uv);
  auto begun = brain->recorder.begin(true);
  EXPECT_FALSE(begun.poll(io.waitScope));
  timer.advanceTo(timer.now() + 10 * kj::SECONDS);
  ASSERT_TRUE(begun.poll(io.waitScope));
  begun.wait(io.waitScope);
  ASSERT_EQ(1u, said.size());
  EXPECT_THAT(said[0].cStr(), HasSubstr("timed out after 10 s"));
  auto ended = brain->recorder.end();
  EXPECT_FALSE(ended.poll(io.waitScope));
  timer.advanceTo(timer.now() + 10 * kj::SECONDS);
  ASSERT_TRUE(ended.poll(io.waitScope));
  ended.wait(io.waitScope);
  EXPECT_EQ(2u, said.size());
}

// Catches: a damaged folder of the previous boot that prevents this boot from being recorded.
TEST_F(BootRecorderTest, LastWordsThatCannotBeKeptAreReported) {
  start("b1");
  tree.directory("pstore");
  tree.file("pstore/dmesg-efi-1", "Panic#1 Part1\n", 0600);
  tree.directory("boots/b1/kernel-last-words.00000001");
  auto brain = startNextBoot("b2");
  ASSERT_EQ(1u, said.size());
  EXPECT_THAT(said[0].cStr(), HasSubstr("boot before"));
  EXPECT_EQ("kernel panic", reasonOf(*brain, "b1"));
  EXPECT_EQ(0, access(tree.at("pstore/dmesg-efi-1").cStr(), F_OK));
  brain->logs.append("apid", "one\n"_kj);
  untilRecorded("b2", "apid", "one\n");
}

}  // namespace
}  // namespace talos::machined
