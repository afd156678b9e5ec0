// Connects to the server of an http or https URL, at the addresses of its name. Sends nothing on
// the connection. Keeps no state: dropping the promise, or a crash, ends the attempt.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::machined {

constexpr unsigned kMostRedirects = 5;

// Low local ports, for HttpSource::lowPort: only privileged programs can have such a port, and a
// server learns nothing else from it.
struct LowPorts {
  kj::LowLevelAsyncIoProvider& sockets;
  kj::Function<double()>& random;  // [0, 1)
};
// A random port is used, of this many ports from 100 on.
constexpr uint16_t kFirstLowPort = 100, kLowPorts = 512;

struct HttpDial {
  kj::Network& network;
  kj::Timer& timer;
  // Returns the addresses of a name, best first.
  kj::Function<kj::Promise<kj::Array<kj::String>>(kj::StringPtr host)>& resolve;
  kj::Maybe<LowPorts> lowPorts = nullptr;
};

// Connects to the first address that accepts. Each but the last has 3 s; the last has as long as
// the caller allows. Unavailable with the cause for each. `state` says what is being done.
kj::Promise<kj::Own<kj::AsyncIoStream>> connectTo(HttpDial dial, const HttpSource& at,
                                                  HttpProgress& state);

// Returns a human-readable error of an attempt.
kj::String httpReason(const kj::Exception& e, const HttpProgress& state);

}  // namespace talos::machined
