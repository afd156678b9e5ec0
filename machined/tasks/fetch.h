// Where the machine config comes from, and getting it (spec boot-and-services.md §5.1-5.2).
//
// Nothing is kept: after a crash the fetch begins anew. What comes back is foreign text of at most
// 4 MiB that nobody has looked at yet.
#pragma once

#include <kj/array.h>
#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "common/kernel-arguments.h"
#include "machined/config/sources.h"

namespace talos::machined {

struct ConfigSource {
  kj::String host;  // numeric: nothing resolves names this early
  uint16_t port = 80;
  kj::String authority;  // for the Host header
  kj::String target;     // path and query, as it goes on the wire
  kj::String shown;      // for logs: without the query, which may hold secrets
};

// None: there is no source (the parameter is absent, empty or `none`), hence maintenance. Throws
// InvalidArgument saying what would be right. An empty value of the query key `uuid` becomes
// `uuid`.
kj::Maybe<ConfigSource> configSource(const KernelArguments& arguments, kj::StringPtr uuid);

// A gzip stream is unpacked, anything else returned as it is. InvalidArgument when it is broken or
// becomes larger than kMostConfigBytes.
kj::Array<char> unpack(kj::Array<char> body);

struct FetchWorld {
  kj::Network& network;
  kj::Timer& timer;
  kj::Function<double()> random;               // [0, 1)
  kj::Function<void(kj::StringPtr line)> say;  // one line per distinct error
};

// GET until it answers 200 with a body: tries after 0, 1, 3, 7, 15 … s plus up to 1 s by chance,
// each of at most 10 s, all together at most `limit`; then Unavailable with the last cause. The
// world has to outlive the promise.
kj::Promise<kj::Array<char>> fetchConfig(FetchWorld& world, ConfigSource source,
                                         kj::Duration limit = 70 * kj::SECONDS);

}  // namespace talos::machined
