// A test's own clock, which advances like a real one.
#pragma once

#include <kj/async.h>
#include <kj/debug.h>
#include <kj/timer.h>

#include <string>

#include "common/base/error.h"

namespace talos {

// Lets `by` pass: each timer fires at its own moment, and code that it starts may set timers within
// the same span.
inline void advance(kj::TimerImpl& timer, kj::WaitScope& scope, kj::Duration by) {
  auto end = timer.now() + by;
  scope.poll();
  for (;;) {
    auto next = timer.nextEvent().orDefault(end);
    if (next >= end) break;
    timer.advanceTo(next);
    scope.poll();
  }
  timer.advanceTo(end);
  scope.poll();
}

// Returns the value of a promise, or the message of its exception, while time jumps from one timer
// to the next. Fails if the promise never resolves. `text` makes a text of a value.
template <typename T, typename F>
std::string outcomeOf(kj::TimerImpl& timer, kj::WaitScope& scope, kj::Promise<T> promise, F text) {
  constexpr unsigned kMostTimers = 100'000;
  for (unsigned i = 0; i < kMostTimers && !promise.poll(scope); ++i) {
    KJ_IF_MAYBE (next, timer.nextEvent()) timer.advanceTo(kj::max(*next, timer.now()));
  }
  KJ_REQUIRE(promise.poll(scope), "it never ends");
  std::string result;
  promise
      .then([&](T&& value) { result = text(kj::mv(value)); },
            [&](kj::Exception&& e) { result = messageOf(e).cStr(); })
      .wait(scope);
  return result;
}

}  // namespace talos
