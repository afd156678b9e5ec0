#include "machined/crashes/program-stacks.h"

#include <gtest/gtest.h>
#include <string.h>

#include "common/base/error.h"
#include "common/crash/crash-handler.h"
#include "common/crash/service-page.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

struct ProgramStacksTest : testing::Test {
  ~ProgramStacksTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  FakeMachine machine;
  FakeProcess1 process1{machine};
  ServicePages pages{process1};
  ProgramStacks stacks{pages, process1, timer, "machined"};
  int page = pages.open("apid").wait(scope);

  // Writes a record as the program does.
  void writeRecord(int signal, kj::StringPtr rest) {
    auto text = kj::str("signal ", signal, "\nprogram apid\nframe 0x10\n", rest);
    uint32_t size = text.size();
    pwrite(page, text.begin(), size, offsetof(crash::ServicePage, record));
    pwrite(page, &size, sizeof size, offsetof(crash::ServicePage, size));
  }
  kj::String failureOf(kj::Promise<crash::CrashRecord> promise) {
    kj::String text;
    promise
        .then([](crash::CrashRecord) { ADD_FAILURE() << "it was answered"; },
              [&](kj::Exception&& e) { text = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)); })
        .wait(scope);
    return text;
  }
  void pass(kj::Duration time) {
    for (; time > 0 * kj::SECONDS; time -= 1 * kj::MILLISECONDS) {
      timer.advanceTo(timer.now() + 1 * kj::MILLISECONDS);
      scope.poll();
    }
  }
};

// Catches: a part of a record; a record of an earlier request; a crash record that a request takes
// away.
TEST_F(ProgramStacksTest, TakesTheWholeRecordOfThisLook) {
  writeRecord(crash::kShowStack, "wait 1 of a look that was given up\nend\n");
  auto look = stacks.of("apid");
  pass(20 * kj::MILLISECONDS);
  EXPECT_FALSE(look.poll(scope));
  writeRecord(crash::kShowStack, "wait 7 no answer of etcd\n");
  pass(20 * kj::MILLISECONDS);
  EXPECT_FALSE(look.poll(scope));
  EXPECT_EQ("Unavailable: somebody else looks at apid; try again"_kj, failureOf(stacks.of("apid")));
  writeRecord(crash::kShowStack, "wait 7 no answer of etcd\nend\n");
  pass(20 * kj::MILLISECONDS);
  auto record = look.wait(scope);
  ASSERT_EQ(1u, record.waits.size());
  EXPECT_EQ("no answer of etcd"_kj, record.waits[0].text);
  EXPECT_EQ(7u, record.waits[0].ms);
  EXPECT_TRUE(pages.takeStack("apid") == nullptr);
}

TEST_F(ProgramStacksTest, ACrashMeanwhileStaysForItsReport) {
  auto look = stacks.of("apid");
  writeRecord(SIGSEGV, "");
  pass(ProgramStacks::kDeadline + 20 * kj::MILLISECONDS);
  EXPECT_EQ(
      "DeadlineExceeded: apid did not write its stack within 2s: it is stopped, waits in "
      "the kernel, or has just started"_kj,
      failureOf(kj::mv(look)));
  EXPECT_EQ(SIGSEGV, KJ_ASSERT_NONNULL(pages.takeRecord("apid")).signal);
}

// Catches: a stack record that was not taken and is reported as a crash at the end of the program.
TEST_F(ProgramStacksTest, ALookIsNoCrash) {
  writeRecord(crash::kShowStack, "end\n");
  EXPECT_TRUE(pages.takeRecord("apid") == nullptr);
}

TEST_F(ProgramStacksTest, OnlyOfProgramsOfThisSystem) {
  EXPECT_EQ(
      "FailedPrecondition: service \"cri\" is not a program of this system: its stack is its "
      "own"_kj,
      failureOf(stacks.of("cri")));
}

}  // namespace
}  // namespace talos::machined
