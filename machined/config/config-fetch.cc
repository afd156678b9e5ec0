#include "machined/config/config-fetch.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/memory/secret-buffer.h"
#include "machined/confined/parser-client/http-connect.h"

namespace talos::machined {
namespace {

constexpr unsigned kLongestPause = 6;  // the pause of 63 s

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

kj::Duration fetchPause(unsigned before, double chance) {
  auto whole = ((int64_t{1} << kj::min(before, kLongestPause)) - 1) * kj::SECONDS;
  return whole + static_cast<int64_t>(chance * 1e9) * kj::NANOSECONDS;
}

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

kj::Promise<kj::Array<char>> fetchConfig(FetchDependencies& deps, HttpSource source,
                                         kj::Duration limit) {
  auto deadline = deps.timer.now() + limit;
  kj::String last;
  for (unsigned failed = 0;; ++failed) {
    kj::Maybe<kj::Exception> failure;
    kj::Maybe<kj::Array<char>> body;
    auto timeout = kj::min(kOneFetch, deadline - deps.timer.now());
    co_await fetchOnce(deps, source, timeout)
        .then([&body](kj::Array<char> b) { body = kj::mv(b); },
              [&failure](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (bytes, body) co_return kj::mv(*bytes);
    last = messageOf(KJ_ASSERT_NONNULL(failure));
    auto line = kj::str("retrying error: ", source.shown, ": ", last);
    if (line != deps.lastPrinted) {
      deps.say(line);
      deps.lastPrinted = kj::mv(line);
    }
    auto pause = fetchPause(failed, deps.random());
    if (deps.timer.now() + pause >= deadline) break;
    co_await deps.timer.afterDelay(pause);
  }
  talos::fail(ErrorKind::kUnavailable,
              kj::str("cannot fetch the machine config from ", source.shown, " within ",
                      limit / kj::SECONDS, " s: ", last));
}

}  // namespace talos::machined
