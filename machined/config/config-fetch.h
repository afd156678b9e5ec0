// Fetches the machine config from a web server.
//
// The brain resolves the name, connects, follows redirects and enforces timeouts. A confined
// process that has the connection and nothing else reads the server's bytes, TLS and HTTP and their
// content (machined/confined/parser-client/foreign-bytes.h), a new one for each.
//
// Nothing is kept: after a crash the fetch starts anew. The result is at most 4 MiB of foreign
// text, checked only for being text at all: a web page, binary data or half an answer is a failed
// attempt.
#pragma once

#include <kj/array.h>
#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "machined/config/config-sources.h"
#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::machined {

struct FetchDependencies {
  kj::Network& network;
  kj::Timer& timer;
  const kj::Clock& clock;                      // for messages about certificates
  kj::Function<double()> random;               // [0, 1)
  kj::Function<void(kj::StringPtr line)> say;  // one line per distinct error
  // The addresses of a name, best first.
  kj::Function<kj::Promise<kj::Array<kj::String>>(kj::StringPtr host)> resolve;
  // The trusted CAs for https, PEM; called when needed.
  kj::Function<kj::Promise<kj::String>()> authorities;
  ForeignBytes& foreign;
  kj::LowLevelAsyncIoProvider& sockets;
  kj::String lastPrinted = nullptr;  // over all fetches
};

// GET until it answers 200 with what could be a config: tries after 0, 1, 3, 7, 15 … s plus up to 1
// s by chance, each of at most 10 s, all together at most `limit`; then Unavailable with the last
// cause. Up to 5 redirects are followed, never from https to http. The dependencies have to outlive
// the promise.
kj::Promise<kj::Array<char>> fetchConfig(FetchDependencies& deps, HttpSource source,
                                         kj::Duration limit = 70 * kj::SECONDS);

// One attempt of at most `timeout`, with the redirects that a config may take. The error has the
// kind that the server's answer has (machined/confined/parser/http-get.h), DeadlineExceeded when it
// is late; the place is not in it, but for one that was redirected to. Both references have to
// outlive the promise.
kj::Promise<kj::Array<char>> fetchOnce(FetchDependencies& deps, const HttpSource& source,
                                       kj::Duration timeout);

// Calls `once`, which tries for at most `timeout`, until it resolves: after 0, 1, 3, 7 … 63 s, and
// up to one more by chance. Each new error is said once, behind `prefix`. Unavailable with the last
// one after `limit`.
kj::Promise<void> repeatFetch(FetchDependencies& deps, kj::Duration limit, kj::StringPtr prefix,
                              kj::Function<kj::Promise<void>(kj::Duration timeout)> once);
constexpr auto kOneFetch = 10 * kj::SECONDS;

}  // namespace talos::machined
