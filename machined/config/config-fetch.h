// Fetches the machine config from a web server.
//
// The brain resolves the name, connects, follows redirects and enforces timeouts. The server's
// bytes (TLS, HTTP and their content) are read by a new confined process for each connection, which
// has access to nothing but this connection (machined/confined/parser-client/foreign-bytes.h).
//
// Keeps no state: after a crash the fetch starts again. The result is at most 4 MiB of foreign
// text, checked only for being text: a web page, binary data or half an answer is a failed attempt.
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
  // Returns the addresses of a name, best first.
  kj::Function<kj::Promise<kj::Array<kj::String>>(kj::StringPtr host)> resolve;
  // Returns the trusted CAs for https, in PEM; called when they are needed.
  kj::Function<kj::Promise<kj::String>()> authorities;
  ForeignBytes& foreign;
  kj::LowLevelAsyncIoProvider& sockets;
  kj::String lastPrinted = nullptr;  // the last error printed, over all fetches
};

// Sends GET requests until the server answers 200 with what could be a config. Tries after 0, 1, 3,
// 7, 15 … s plus up to 1 s by chance, each try for at most 10 s, all together for at most `limit`;
// then throws Unavailable with the last cause. Follows up to 5 redirects, never from https to http.
// The dependencies must outlive the promise.
kj::Promise<kj::Array<char>> fetchConfig(FetchDependencies& deps, HttpSource source,
                                         kj::Duration limit = 70 * kj::SECONDS);

// Makes one attempt of at most `timeout`, with as many redirects as a config may take. The error
// has the kind of the server's answer (machined/confined/parser/http-get.h), or DeadlineExceeded
// after `timeout`; it names a URL only if the server redirected to it. Both references must outlive
// the promise.
kj::Promise<kj::Array<char>> fetchOnce(FetchDependencies& deps, const HttpSource& source,
                                       kj::Duration timeout);

// Calls `once`, which tries for at most `timeout`, until it resolves: after 0, 1, 3, 7 … 63 s, plus
// up to 1 s by chance. Prints each new error once, after `prefix`. Throws Unavailable with the last
// error after `limit`.
kj::Promise<void> repeatFetch(FetchDependencies& deps, kj::Duration limit, kj::StringPtr prefix,
                              kj::Function<kj::Promise<void>(kj::Duration timeout)> once);
constexpr auto kOneFetch = 10 * kj::SECONDS;

}  // namespace talos::machined
