// Attempts at the steps of a rollout. Nodes and API servers are away for a while when they are
// changed, so an attempt that fails is repeated within a limit. Nothing records the attempts: a
// rollout that was interrupted makes them again.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/error.h"

namespace talos::talosctl {

// Reason why a state is not reached yet; nullptr if it is.
using Missing = kj::Maybe<kj::String>;
using Attempt = kj::Function<kj::Promise<Missing>()>;

struct RetryOptions {
  kj::Duration limit;
  kj::Duration pause = 1 * kj::SECONDS;  // between two attempts
  // Returns the error of a state that is not reached within the limit.
  kj::Function<kj::Exception(kj::StringPtr reason)> late;
  // Called after each attempt that has not reached the state. `waited`: time since the first one.
  kj::Function<void(kj::StringPtr reason, kj::Duration waited)> retrying = [](kj::StringPtr,
                                                                              kj::Duration) {};
};

// Repeats `attempt` until it returns nullptr. A rejection of the attempt ends the repetition; the
// last attempt begins when the limit has passed.
inline kj::Promise<void> retryUntilReached(kj::Timer& timer, RetryOptions options,
                                           Attempt attempt) {
  for (auto start = timer.now(), end = start + options.limit;;) {
    auto missing = co_await attempt();
    KJ_IF_MAYBE (reason, missing) {
      options.retrying(*reason, timer.now() - start);
      if (timer.now() >= end) kj::throwFatalException(options.late(*reason));
    } else {
      co_return;
    }
    co_await timer.atTime(kj::min(timer.now() + options.pause, end));
  }
}

// Returns the error of `work()`, or nullptr if it succeeds. For a coroutine, which cannot wait in a
// catch clause. Work: a function that returns a promise.
template <typename Work>
kj::Promise<kj::Maybe<kj::Exception>> failureOf(Work work) {
  try {
    co_await work();
    co_return nullptr;
  } catch (...) {
    co_return kj::getCaughtExceptionAsKj();
  }
}

// Returns the value of a promise, or nullptr if it is rejected with NotFound.
template <typename T>
kj::Promise<kj::Maybe<T>> ifFound(kj::Promise<T> promise) {
  return promise.then([](T&& found) -> kj::Maybe<T> { return kj::mv(found); },
                      [](kj::Exception&& e) -> kj::Maybe<T> {
                        if (kindOf(e) == ErrorKind::kNotFound) return nullptr;
                        kj::throwFatalException(kj::mv(e));
                      });
}

}  // namespace talos::talosctl
