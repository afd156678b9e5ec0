#include "machined/config/config-fetch.h"

#include <kj/debug.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/memory/secret-buffer.h"
#include "machined/confined/parser-client/http-connect.h"

namespace talos::machined {
namespace {

constexpr Backoff::Pace kFetchPace = {1 * kj::SECONDS, 64 * kj::SECONDS};
constexpr auto kOneTry = 10 * kj::SECONDS;

// The progress of a try, for the message when it times out.
struct Try : HttpProgress {
  kj::Maybe<HttpSource> movedTo;
};

[[noreturn]] void fail(kj::StringPtr error) {
  talos::fail(ErrorKind::kUnavailable, error);
}

class Fetcher {
 public:
  explicit Fetcher(FetchDependencies& deps) : deps(deps) {}

  // One try, including redirects.
  kj::Promise<kj::Array<char>> once(const HttpSource& source, Try& state) {
    auto* at = &source;
    for (unsigned redirects = 0;; ++redirects) {
      auto answer = co_await ask(*at, state);
      KJ_IF_MAYBE (text, answer.tryGet<kj::Array<char>>()) co_return kj::mv(*text);
      if (redirects == kMostRedirects) {
        fail(kj::str("redirected more than ", kMostRedirects, " times"));
      }
      state.movedTo = kj::mv(answer.get<HttpSource>());
      at = &KJ_ASSERT_NONNULL(state.movedTo);
    }
  }

 private:
  FetchDependencies& deps;

  kj::Promise<HttpAnswer> ask(const HttpSource& at, Try& state) {
    auto stream = co_await connectTo({deps.network, deps.timer, deps.resolve}, at, state);
    kj::String authorities;
    if (at.secure) authorities = co_await deps.authorities();
    co_return co_await deps.foreign.http(kj::mv(stream), at, authorities, deps.clock.now(), state);
  }
};

}  // namespace

kj::Promise<kj::Array<char>> fetchConfig(FetchDependencies& deps, HttpSource source,
                                         kj::Duration limit) {
  auto deadline = deps.timer.now() + limit;
  Fetcher fetcher(deps);
  kj::String last;
  Backoff backoff(kFetchPace);
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    kj::Maybe<kj::Array<char>> body;
    Try state;
    auto timeout = kj::min(kOneTry, deadline - deps.timer.now());
    auto late = deps.timer.afterDelay(timeout).then([&state, timeout]() {
      auto got =
          state.received == 0 ? kj::String() : kj::str(", ", state.received, " bytes received");
      talos::fail(ErrorKind::kDeadlineExceeded,
                  kj::str("timed out after ", timeout / kj::SECONDS, " s: ", state.doing, got));
    });
    co_await fetcher.once(source, state)
        .then([&body](kj::Array<char> b) { body = kj::mv(b); })
        .exclusiveJoin(kj::mv(late))
        .catch_([&failure](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (bytes, body) co_return kj::mv(*bytes);
    auto error = httpReason(KJ_ASSERT_NONNULL(failure), state);
    KJ_IF_MAYBE (moved, state.movedTo) error = kj::str(moved->shown, ": ", error);
    auto line = kj::str("retrying error: ", source.shown, ": ", error);
    if (line != deps.lastPrinted) {
      deps.say(line);
      deps.lastPrinted = kj::mv(line);
    }
    last = kj::mv(error);
    // 0, 1, 3, 7 ... 63 s, and up to a second by chance.
    auto pause = backoff.next() - kFetchPace.first +
                 static_cast<int64_t>(deps.random() * 1e9) * kj::NANOSECONDS;
    if (deps.timer.now() + pause >= deadline) break;
    co_await deps.timer.afterDelay(pause);
  }
  talos::fail(ErrorKind::kUnavailable,
              kj::str("cannot fetch the machine config from ", source.shown, " within ",
                      limit / kj::SECONDS, " s: ", last));
}

}  // namespace talos::machined
