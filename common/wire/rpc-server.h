// Cap'n Proto servers on listening sockets, with limits, and the clients that dial them.
//
// A server accepts until it is destroyed or told to stop. Limits (all in ServerLimits) keep a
// hostile or broken peer from costing more than its own connection: handshake deadline, connections
// in total and per peer address, bytes of one message, words of calls in flight, calls at once,
// bytes that wait to be sent. A peer over a limit is closed and logged, in so many lines for each
// peer (common/base/line-limit.h); the listener itself never ends because of a peer. When all
// connections are taken, one on which nothing is asked (Welcome::idleSince) makes room, or else the
// oldest that has not finished its handshake (when a peer has all that one may have, one of its
// own); or, with `queue`, newer ones wait in the kernel's queue (or here, for a place of their own
// peer), and only those make room that nothing was asked on, or heard of, for a moment. Each
// connection gets its own bootstrap capability from a factory that knows who is calling.
#pragma once

#include <capnp/capability.h>
#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/function.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/tls/tls.h"
#include "common/wire/budget.h"

namespace talos {

struct ServerLimits {
  kj::Duration handshake = 10 * kj::SECONDS;
  unsigned connections = 1024;
  unsigned connectionsPerPeer = 256;  // TCP: per address, of IPv6 per /64; Unix: per uid
  uint64_t messageWords = 1u << 20;   // 8 MiB
  uint64_t inFlightWords = 4u << 20;
  unsigned questions = 4096;      // unfinished calls of one connection
  unsigned capabilities = 16384;  // of ours, that one connection holds
  size_t queuedBytes = 8u << 20;  // answers that wait to be sent; beyond, nothing more is read
  bool queue = false;             // TCP: all connections taken: newer ones wait their turn
  kj::Duration farewell = 2 * kj::SECONDS;  // for what is under way when the server is to end
};

struct UnixPeer {
  int pid;
  unsigned uid;
  unsigned gid;
};  // SO_PEERCRED

// Serves on an existing listening socket (from process 1, so that it outlives a crash of the
// owner). Runs until dropped; rejects only if the listening socket itself fails.
kj::Promise<void> serveUnix(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                            kj::AutoCloseFd listening,
                            kj::Function<capnp::Capability::Client(const UnixPeer&)> bootstrap,
                            ServerLimits limits = {});
// Since when nothing was asked on a connection that its peer had a right to; none while something
// is under way.
using IdleSince = kj::Function<kj::Maybe<kj::TimePoint>()>;
// What one connection gets, and how long it may last: when `until` resolves, it ends as soon as
// what was asked on it is answered, at the latest after kLastAnswers; and it is closed, if the
// server can tell what it is good for, when newer ones need its place.
constexpr auto kLastAnswers = 30 * kj::SECONDS;
struct Welcome {
  Welcome(capnp::Capability::Client bootstrap, kj::Promise<void> until = kj::NEVER_DONE,
          kj::Maybe<IdleSince> idleSince = nullptr, kj::Own<Budget::Account> account = {})
      : bootstrap(kj::mv(bootstrap)),
        until(kj::mv(until)),
        idleSince(kj::mv(idleSince)),
        account(kj::mv(account)) {}
  capnp::Capability::Client bootstrap;
  kj::Promise<void> until;
  kj::Maybe<IdleSince> idleSince;
  kj::Own<Budget::Account> account;  // of the client, over all its connections; null: none
};
// What else is spoken on a port of serveTls(), told apart by the first bytes of a client, which
// come within the time of a handshake.
struct OtherProtocol {
  kj::StringPtr begins;  // four bytes, which begin no message of Cap'n Proto
  // Like serveConnection(): the stream begins with those bytes.
  kj::Function<kj::Promise<kj::Maybe<kj::String>>(
      kj::Own<kj::AsyncIoStream> stream, capnp::Capability::Client bootstrap,
      kj::Promise<void> stop, kj::Own<Budget::Account> account)>
      serve;
};
// `welcome` may throw: the connection is closed and the reason logged.
// When `stop` resolves, nothing more is accepted (what comes waits in the kernel's queue for
// whoever listens there next), and a connection ends as soon as what was asked on it is answered.
// Resolves when none is left, at the latest after `farewell`.
kj::Promise<void> serveTls(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                           kj::AutoCloseFd listening, TlsEndpoint& tls,
                           kj::Function<Welcome(const Peer&)> welcome, ServerLimits limits = {},
                           kj::Promise<void> stop = kj::NEVER_DONE,
                           kj::Maybe<OtherProtocol> other = nullptr);

// One connection of such a server, on a stream that is up. Resolves when it has ended: with the
// reason, if the peer did not simply go. `stop` as above, without the deadline.
kj::Promise<kj::Maybe<kj::String>> serveConnection(kj::Timer& timer,
                                                   kj::Own<kj::AsyncIoStream> stream,
                                                   capnp::Capability::Client bootstrap,
                                                   ServerLimits limits = {},
                                                   kj::Promise<void> stop = kj::NEVER_DONE,
                                                   kj::Own<Budget::Account> account = {});

// Makes listening sockets: close-on-exec, non-blocking. A stale Unix socket file is replaced, with
// this mode and owner.
kj::AutoCloseFd listenUnix(kj::StringPtr path, mode_t mode, unsigned uid = 0, unsigned gid = 0);
kj::AutoCloseFd listenTcp(kj::StringPtr address, uint16_t port, int backlog = 512);

// What every TCP connection has: no delay, and a peer that vanished is noticed after this time,
// whether or not something is being sent to it.
void tuneTcp(kj::AsyncIoStream& stream, kj::Duration silence = 2 * kj::MINUTES);

// The listening socket that the environment variable names by its number, from whoever started us.
// InvalidArgument, naming the variable, when there is none.
kj::AutoCloseFd inheritedSocket(kj::StringPtr variable);

// A connection as a client sees it: the bootstrap capability and the stream under it.
class Connection {
 public:
  virtual ~Connection() noexcept(false) = default;
  // As often as one likes; when the connection has ended, its calls fail with that.
  virtual capnp::Capability::Client bootstrap() = 0;
  // The server went, or has broken a limit and is to be left: whatever is left of the connection
  // goes with this object.
  virtual kj::Promise<void> onDisconnect() = 0;
  // False from the moment that the end was seen, which is before calls in flight fail.
  virtual bool alive() const = 0;
};

// What a server may cost its client: as much as a client may cost a server. Nothing that our
// servers say is larger: of what a daemon may keep in machined's store a list has 7 MiB
// (machined/resources/resource-access.h), and one resource, like a config, at most 4 MiB.
struct DialLimits {
  uint64_t messageWords = 1u << 20;   // 8 MiB
  uint64_t inFlightWords = 1u << 20;  // of calls of the server: sinks of streams
  unsigned questions = 4096;
  unsigned capabilities = 16384;
  size_t queuedBytes = 8u << 20;
  // Whose what waits to be sent to the server is; null: nobody's.
  kj::Own<Budget::Account> account;

  // Of a server that nobody has verified, or that is asked for little: 256 KiB, with no calls of
  // its own to speak of.
  static constexpr DialLimits small() {
    return {.messageWords = 1u << 15,
            .inFlightWords = 1u << 15,
            .questions = 16,
            .capabilities = 64,
            .queuedBytes = 256u << 10,
            .account = {}};
  }
};

kj::Promise<kj::Own<Connection>> connectUnix(kj::LowLevelAsyncIoProvider& lowLevel,
                                             kj::Timer& timer, kj::StringPtr path,
                                             kj::Duration deadline = 5 * kj::SECONDS,
                                             DialLimits limits = {});
// What makes a connection that is up a secure one.
using Secure =
    kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>(kj::Own<kj::AsyncIoStream> stream)>;
// `address` is numeric (IPv4 or IPv6, no port). Unavailable naming address, port and cause
// ("connection refused", "no answer within 5 s", the TLS alert). The deadline is that of the
// handshake too. `limits` is asked when `secure` is done and knows who that is. Later, a peer that
// vanishes is noticed after kDialSilence: somebody waits for its answer.
constexpr kj::Duration kDialSilence = 16 * kj::SECONDS;
kj::Promise<kj::Own<Connection>> connectTcp(
    kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::StringPtr address, uint16_t port,
    Secure secure, kj::Duration deadline = 10 * kj::SECONDS,
    kj::Function<DialLimits()> limits = [] { return DialLimits(); });

// A capability that dials again after a disconnect: calls in flight fail with Unavailable, the next
// call dials anew. For daemons of the same machine that may restart at any time. What came from it
// (a returned capability) lives as long as the connection it came by, and that at most as long as
// this capability.
capnp::Capability::Client reconnecting(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                       kj::String unixPath);

// The same for whatever `dial` makes: a capability and what it stands on.
struct Dialed {
  kj::Own<Connection> connection;
  capnp::Capability::Client capability;
};
capnp::Capability::Client reconnecting(kj::Function<kj::Promise<Dialed>()> dial);

}  // namespace talos
