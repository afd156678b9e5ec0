// Waits, retries and lines of a rollout, on a virtual clock.
#include "talosctl/rollout/state-waits.h"

#include <gmock/gmock.h>

#include "common/testing/virtual-time.h"
#include "talosctl/cli/test-console.h"

namespace talos::talosctl {
namespace {

struct RolloutWaits : public testing::Test {
  ~RolloutWaits() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestConsole console;
  FixedClock clock;
  RolloutLines lines{console, EventFormat::kText};
  StateWaits waits{timer, clock, lines};
  unsigned attempts = 0;

  std::string ended(kj::Promise<void> wait) {
    return outcomeOf(timer, scope, wait.then([] { return true; }), [](bool) { return "reached"; });
  }
  // An attempt that finds these reasons one after the other, and then the state.
  Attempt finding(std::vector<const char*> reasons) {
    return [this, reasons]() -> kj::Promise<Missing> {
      if (attempts == reasons.size()) co_return nullptr;
      co_return kj::str(reasons[attempts++]);
    };
  }
  static RetryOptions within(kj::Duration limit, kj::Duration pause) {
    return {.limit = limit, .pause = pause, .late = [](kj::StringPtr reason) {
              return error(ErrorKind::kDeadlineExceeded, kj::str("late: ", reason));
            }};
  }
};

// Catches: a reason that is printed again with each attempt, or not in the form of the log.
TEST_F(RolloutWaits, EachReasonIsPrintedOnce) {
  EXPECT_EQ(ended(waits.until(kj::str("x"), {10 * kj::SECONDS}, finding({"a", "b", "a", "b"}))),
            "reached");
  EXPECT_EQ(console.takeErr(),
            "2021/03/06 03:06:40 retrying error: a\n2021/03/06 03:06:40 retrying error: b\n"_kj);
  EXPECT_EQ(console.takeOut(), "");
}

// Catches: a wait without an end; an error without the state, the limit or the last reason.
TEST_F(RolloutWaits, AWaitEndsWithTheLastReason) {
  EXPECT_EQ(ended(waits.until(kj::str("its pod"), {3 * kj::SECONDS},
                              finding({"a", "b", "c", "d", "e", "f", "g"}))),
            "timed out after 3s waiting for its pod: d; fix that, and run the same command again: "
            "it continues from here");
}

// Catches: a run that waits for minutes although no attempt can succeed; a run that ends because an
// API server was away for a moment.
TEST_F(RolloutWaits, SomeErrorsAreFinal) {
  for (auto kind :
       {ErrorKind::kInvalidArgument, ErrorKind::kPermissionDenied, ErrorKind::kUnauthenticated,
        ErrorKind::kUnimplemented, ErrorKind::kFailedPrecondition, ErrorKind::kUnavailable,
        ErrorKind::kConflict, ErrorKind::kNotFound, ErrorKind::kDeadlineExceeded}) {
    bool final = kind != ErrorKind::kUnavailable && kind != ErrorKind::kConflict &&
                 kind != ErrorKind::kNotFound && kind != ErrorKind::kDeadlineExceeded;
    attempts = 0;
    auto action = [&]() -> kj::Promise<void> {
      if (++attempts == 3) return kj::READY_NOW;
      return error(kind, "no");
    };
    EXPECT_EQ(ended(waits.untilDone(kj::str("it"), {1 * kj::MINUTES}, action)),
              final ? "it: no" : "reached")
        << nameOf(kind).cStr();
    EXPECT_EQ(attempts, final ? 1u : 3u);
  }
}

// Catches: a limit that ends without an attempt at its end; a reason that is not passed on.
TEST_F(RolloutWaits, TheLastAttemptIsAtTheLimit) {
  auto options = within(5 * kj::SECONDS, 2 * kj::SECONDS);
  std::string passed;
  options.retrying = [&](kj::StringPtr reason, kj::Duration waited) {
    passed += kj::str(reason, " ", waited / kj::SECONDS, "\n").cStr();
  };
  EXPECT_EQ(ended(retryUntilReached(timer, kj::mv(options), finding({"a", "b", "c", "d", "e"}))),
            "late: d");
  EXPECT_EQ(passed, "a 0\nb 2\nc 4\nd 5\n");
  attempts = 0;
  EXPECT_EQ(ended(retryUntilReached(timer, within(5 * kj::SECONDS, 2 * kj::SECONDS),
                                    finding({"a", "b", "c"}))),
            "reached");
}

// Catches: an error that is lost, or that ends the caller; another error than NotFound that counts
// as an absence.
TEST_F(RolloutWaits, ErrorsAreValues) {
  auto failing = [](ErrorKind kind) -> kj::Promise<int> { return error(kind, "no"); };
  auto failure = failureOf([&] { return failing(ErrorKind::kConflict); }).wait(scope);
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)), "no"_kj);
  failure =
      failureOf([]() -> kj::Promise<void> { fail(ErrorKind::kConflict, "at once"); }).wait(scope);
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)), "at once"_kj);
  EXPECT_EQ(failureOf([] { return kj::Promise<int>(7); }).wait(scope), nullptr);
  EXPECT_EQ(KJ_ASSERT_NONNULL(ifFound(kj::Promise<int>(7)).wait(scope)), 7);
  EXPECT_EQ(ifFound(failing(ErrorKind::kNotFound)).wait(scope), nullptr);
  auto other = kj::runCatchingExceptions(
      [&] { (void)ifFound(failing(ErrorKind::kUnavailable)).wait(scope); });
  EXPECT_TRUE(kindOf(KJ_ASSERT_NONNULL(other)) == ErrorKind::kUnavailable);
}

// Catches: JSON or YAML on stdout that other text interrupts; an event in a text for readers; a
// control character of a node that reaches the terminal.
TEST_F(RolloutWaits, StdoutHasLinesOrEvents) {
  lines.line("a \x1b[2J");
  lines.text("b\n\nc");
  lines.note("n");
  lines.question("go? ");
  lines.event({{"event", "x"}});
  EXPECT_EQ(console.takeOut(), "a \\x1b[2J\nb\n\nc\n"_kj);
  EXPECT_EQ(console.takeErr(), "n\ngo? "_kj);
  RolloutLines json(console, EventFormat::kJson);
  json.line("a");
  json.note("n");
  json.event({{"event", "x"}});
  EXPECT_EQ(console.takeOut(), "{\"event\":\"x\"}\n"_kj);
  EXPECT_EQ(console.takeErr(), "a\nn\n"_kj);
  RolloutLines yaml(console, EventFormat::kYaml);
  yaml.line("a");
  yaml.event({{"event", "x"}, {"node", "w-1"}});
  yaml.event({{"event", "y"}});
  EXPECT_EQ(console.takeOut(), "---\nevent: x\nnode: w-1\n---\nevent: \"y\"\n"_kj);
  EXPECT_EQ(console.takeErr(), "a\n"_kj);
  EXPECT_EQ(quotedList(kj::arr(kj::str("10.5.0.2"), kj::str("10.5.0.3"))),
            "[\"10.5.0.2\" \"10.5.0.3\"]"_kj);
}

}  // namespace
}  // namespace talos::talosctl
