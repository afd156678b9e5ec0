#include "machined/boot/tasks/driver-deadline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/testing/virtual-time.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct DriverDeadline : public testing::Test {
  ~DriverDeadline() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<std::string> reported;

  kj::Promise<void> begin(kj::Promise<void> work) {
    return untilDriverDeadline(timer, "loading drivers", kj::mv(work),
                               [this](kj::StringPtr line) { reported.push_back(line.cStr()); });
  }
};

// Catches: a boot that a hanging driver stops for ever, or without a line.
TEST_F(DriverDeadline, WorkThatHangsLetsTheBootContinue) {
  auto waiting = begin(kj::NEVER_DONE);
  advance(timer, scope, 599 * kj::SECONDS);
  EXPECT_FALSE(waiting.poll(scope));
  advance(timer, scope, 1 * kj::SECONDS);
  waiting.wait(scope);
  EXPECT_THAT(reported, ElementsAre("warning: loading drivers has not ended within 600 s; the boot "
                                    "continues without it"));
}

// Catches: a boot that continues although its task failed; a warning about work that ended in time.
TEST_F(DriverDeadline, WorkThatEndsKeepsItsResult) {
  begin(kj::READY_NOW).wait(scope);
  auto refused = begin(error(ErrorKind::kInternal, "no memory"));
  auto failure = kj::runCatchingExceptions([&] { refused.wait(scope); });
  EXPECT_EQ("no memory", messageOf(KJ_ASSERT_NONNULL(failure)));
  EXPECT_THAT(reported, IsEmpty());
}

}  // namespace
}  // namespace talos::machined
