#include "talosctl/rollout/state-waits.h"

#include "common/base/date.h"
#include "common/text/texts.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

bool isFinal(const kj::Exception& e) {
  switch (kindOf(e)) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kPermissionDenied:
    case ErrorKind::kUnauthenticated:
    case ErrorKind::kUnimplemented:
    case ErrorKind::kFailedPrecondition:
      return true;
    default:
      return false;
  }
}

}  // namespace

void StateWaits::printRetry(kj::StringPtr reason) {
  // 2021-03-09T19:55:01Z, converted to the form of Talos' log.
  auto date = dateText(clock.now());
  for (char& c : date) {
    if (c == '-') c = '/';
    if (c == 'T') c = ' ';
  }
  lines.note(kj::str(date.slice(0, date.size() - 1), " retrying error: ", reason));
}

kj::Promise<void> StateWaits::until(kj::String what, WaitTimes times, Attempt attempt) {
  kj::Vector<kj::String> printed;
  RetryOptions options{
      .limit = times.limit,
      .pause = times.interval,
      .late =
          [&](kj::StringPtr reason) {
            return error(ErrorKind::kDeadlineExceeded,
                         kj::str("timed out after ", durationText(times.limit), " waiting for ",
                                 what, ": ", reason,
                                 "; fix that, and run the same command again: it continues from "
                                 "here"));
          },
      .retrying =
          [&](kj::StringPtr reason, kj::Duration) {
            if (contains(printed, reason)) return;
            printRetry(reason);
            printed.add(kj::str(reason));
          }};
  co_await retryUntilReached(timer, kj::mv(options), [&]() -> kj::Promise<Missing> {
    try {
      co_return co_await attempt();
    } catch (...) {
      auto e = kj::getCaughtExceptionAsKj();
      if (isFinal(e)) fail(kindOf(e), kj::str(what, ": ", messageOf(e)));
      co_return messageOf(e);
    }
  });
}

kj::Promise<void> StateWaits::untilDone(kj::String what, WaitTimes times,
                                        kj::Function<kj::Promise<void>()> action) {
  return until(kj::mv(what), times, [action = kj::mv(action)]() mutable -> kj::Promise<Missing> {
    co_await action();
    co_return nullptr;
  });
}

}  // namespace talos::talosctl
