// Balances TCP connections to API servers: forwards each accepted connection to a usable server
// (server-scores.h), and tries the next server if one is not reached. TLS is between the client and
// the server; the balancer passes bytes. A client is reset while no server is usable.
//
// Each server is checked by a connect, one after another, when the list changes and every
// kCheckInterval; every kCheckIntervalOfNone until a server was reached and while none is usable,
// so that clients do not wait for minutes after an outage of all servers. A crash ends all
// connections, and their clients connect again.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/io.h>
#include <kj/timer.h>

#include "common/base/signal.h"
#include "kubed/balancer/server-scores.h"

namespace talos::kubed {

constexpr auto kCheckInterval = 20 * kj::SECONDS, kCheckIntervalOfNone = 2 * kj::SECONDS,
               kCheckTimeout = 15 * kj::SECONDS;
// A connection has six descriptors, and up to 128 KiB of bytes on their way in pipes of the kernel,
// which count as memory of kubed.
constexpr unsigned kMostConnections = 128;

class ApiBalancer {
 public:
  // Connects to a server.
  using Dial = kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>(const ApiServer& server)>;
  struct Dependencies {
    kj::LowLevelAsyncIoProvider& lowLevel;
    kj::Timer& timer;
    const kj::MonotonicClock& clock;  // measures connects
    Dial& dial;
  };
  // All dependencies must outlive this object. `address`: that of the listening socket, for the
  // log. Calls `healthChanged` when a connect has changed scores().health().
  ApiBalancer(Dependencies deps, kj::AutoCloseFd listening, kj::String address,
              kj::Function<void()> healthChanged);
  KJ_DISALLOW_COPY_AND_MOVE(ApiBalancer);

  // Replaces the servers; open connections stay.
  void setServers(kj::ArrayPtr<const ApiServer> servers);
  const ServerScores& scores() const { return known; }
  // Returns the error with which the listening socket has failed.
  kj::Maybe<kj::StringPtr> failure() const;

 private:
  Dependencies deps;
  kj::Function<void()> healthChanged;
  ServerScores known;
  Signal changed;      // the list of servers
  unsigned lists = 0;  // number of lists so far
  kj::Maybe<kj::String> failed;
  kj::Promise<void> forwarding, checking;

  kj::Promise<kj::Own<kj::AsyncIoStream>> connect();
  kj::Promise<kj::Maybe<kj::Own<kj::AsyncIoStream>>> attempt(ApiServer server);
  kj::Promise<void> check();
};

}  // namespace talos::kubed
