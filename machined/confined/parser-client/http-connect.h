// A connection to where an http or https URL leads, by the addresses that its name has. Nothing is
// sent on it. Nothing is kept: whoever drops the promise ends what it has begun, and so does a
// crash.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::machined {

constexpr unsigned kMostRedirects = 5;

// For HttpSource::lowPort: only privileged programs can have such a port, which is all that a
// server learns from it.
struct LowPorts {
  kj::LowLevelAsyncIoProvider& sockets;
  kj::Function<double()>& random;  // [0, 1)
};
// Of this many, one by chance: those from 100 on.
constexpr uint16_t kFirstLowPort = 100, kLowPorts = 512;

struct HttpDial {
  kj::Network& network;
  kj::Timer& timer;
  // The addresses of a name, best first.
  kj::Function<kj::Promise<kj::Array<kj::String>>(kj::StringPtr host)>& resolve;
  kj::Maybe<LowPorts> lowPorts = nullptr;
};

// The first address that takes the connection; of several each has 3 s, the last one what the
// caller allows. Unavailable with the reason of each. `state` says what is being done.
kj::Promise<kj::Own<kj::AsyncIoStream>> connectTo(HttpDial dial, const HttpSource& at,
                                                  HttpProgress& state);

// The error of an attempt, for people.
kj::String httpReason(const kj::Exception& e, const HttpProgress& state);

}  // namespace talos::machined
