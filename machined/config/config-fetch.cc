#include "machined/config/config-fetch.h"

#include <kj/debug.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/memory/secret-buffer.h"
#include "machined/confined/parser-client/http-connect.h"

namespace talos::machined {
namespace {

constexpr Backoff::Pace kFetchPace = {1 * kj::SECONDS, 64 * kj::SECONDS};

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

  // Makes one try, including redirects.
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
    auto stream = co_await connectTo(
        {deps.network, deps.timer, deps.resolve, LowPorts{deps.sockets, deps.random}}, at, state);
    kj::String authorities;
    if (at.secure) authorities = co_await deps.authorities();
    co_return co_await deps.foreign.http(kj::mv(stream), at, authorities, deps.clock.now(), state);
  }
};

}  // namespace

kj::Promise<kj::Array<char>> fetchOnce(FetchDependencies& deps, const HttpSource& source,
                                       kj::Duration timeout) {
  Fetcher fetcher(deps);
  Try state;
  auto late = deps.timer.afterDelay(timeout).then([&state, timeout]() -> kj::Array<char> {
    auto got =
        state.received == 0 ? kj::String() : kj::str(", ", state.received, " bytes received");
    talos::fail(ErrorKind::kDeadlineExceeded,
                kj::str("timed out after ", timeout / kj::SECONDS, " s: ", state.doing, got));
  });
  co_return co_await fetcher.once(source, state)
      .exclusiveJoin(kj::mv(late))
      .catch_([&state](kj::Exception&& e) -> kj::Array<char> {
        auto error = httpReason(e, state);
        KJ_IF_MAYBE (moved, state.movedTo) error = kj::str(moved->shown, ": ", error);
        talos::fail(kindOf(e), error);
      });
}

kj::Promise<void> repeatFetch(FetchDependencies& deps, kj::Duration limit, kj::StringPtr prefix,
                              kj::Function<kj::Promise<void>(kj::Duration timeout)> once) {
  auto deadline = deps.timer.now() + limit;
  for (Backoff backoff(kFetchPace);;) {
    kj::Maybe<kj::Exception> failure;
    co_await once(kj::min(kOneFetch, deadline - deps.timer.now()))
        .catch_([&failure](kj::Exception&& e) { failure = kj::mv(e); });
    if (failure == nullptr) co_return;
    auto error = messageOf(KJ_ASSERT_NONNULL(failure));
    auto line = kj::str("retrying error: ", prefix, error);
    if (line != deps.lastPrinted) {
      deps.say(line);
      deps.lastPrinted = kj::mv(line);
    }
    auto pause = backoff.next() - kFetchPace.first +
                 static_cast<int64_t>(deps.random() * 1e9) * kj::NANOSECONDS;
    if (deps.timer.now() + pause >= deadline) fail(error);
    co_await deps.timer.afterDelay(pause);
  }
}

kj::Promise<kj::Array<char>> fetchConfig(FetchDependencies& deps, HttpSource source,
                                         kj::Duration limit) {
  kj::Array<char> body;
  auto prefix = kj::str(source.shown, ": ");
  co_await repeatFetch(deps, limit, prefix, [&](kj::Duration timeout) {
    return fetchOnce(deps, source, timeout).then([&](kj::Array<char> b) { body = kj::mv(b); });
  }).catch_([&](kj::Exception&& e) {
    fail(kj::str("cannot fetch the machine config from ", source.shown, " within ",
                 limit / kj::SECONDS, " s: ", messageOf(e)));
  });
  co_return kj::mv(body);
}

}  // namespace talos::machined
