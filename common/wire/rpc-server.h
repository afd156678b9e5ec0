// Cap'n Proto servers on listening sockets, with limits, and the clients that dial them.
//
// A server accepts until it is destroyed or stopped. Limits (all in ServerLimits) keep a hostile or
// faulty peer from harming more than its own connection: handshake deadline, connections in total
// and per peer address, bytes of one message, words of calls in flight, calls at once, bytes that
// wait to be sent. A peer over a limit is disconnected and logged, in a bounded number of lines for
// each peer (common/wire/log-line-limit.h); the listener itself never ends because of a peer. When
// all connections are in use, an idle connection is evicted (SessionParams::idleSince), or else the
// oldest connection in its handshake (when a peer has reached the limit per peer, one of this
// peer's connections). With `queue`, newer connections wait instead: in the kernel's queue, or in
// this process for a slot of their peer; then only connections that have been silent or idle for a
// moment are evicted. Each connection gets its own bootstrap capability from a factory that gets
// the caller's identity.
#pragma once

#include <capnp/capability.h>
#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/function.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/net/ip.h"
#include "common/tls/tls.h"
#include "common/wire/budget.h"
#include "common/wire/call-observer.h"

namespace talos {

struct ServerLimits {
  kj::Duration handshake = 10 * kj::SECONDS;
  unsigned connections = 1024;
  unsigned connectionsPerPeer = 256;  // TCP: per address, of IPv6 per /64; Unix: per uid
  uint64_t messageWords = 1u << 20;   // 8 MiB
  uint64_t inFlightWords = 4u << 20;
  unsigned questions = 4096;      // unfinished calls of one connection
  unsigned capabilities = 16384;  // of this server, held by one connection
  size_t queuedBytes = 8u << 20;  // answers that wait to be sent; beyond, nothing more is read
  bool queue = false;             // TCP: when all connections are in use, newer ones wait
  kj::Duration drainTimeout = 2 * kj::SECONDS;  // for calls under way when the server exits
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
// Returns since when a connection has been idle, that is without a call that its peer has a right
// to make; nullptr while a call is under way.
using IdleSince = kj::Function<kj::Maybe<kj::TimePoint>()>;
// Parameters of one session. When `until` resolves, the connection is closed as soon as its calls
// are answered, at the latest after kDrainTime. With `idleSince` the connection can be evicted for
// a newer one.
constexpr auto kDrainTime = 30 * kj::SECONDS;
struct SessionParams {
  capnp::Capability::Client bootstrap;
  kj::Promise<void> until = kj::NEVER_DONE;
  kj::Maybe<IdleSince> idleSince = nullptr;
  kj::Own<Budget::Account> account = {};  // of the client, for all its connections; or null
  kj::Own<CallObserver> observer = {};    // or null
};
// A second protocol on a port of serveTls(), recognized by the first bytes of a client. These must
// arrive within the handshake timeout.
struct OtherProtocol {
  kj::StringPtr preface;  // its first four bytes, with which no message of Cap'n Proto starts
  // Like serveConnection(): the stream starts with the preface.
  kj::Function<kj::Promise<kj::Maybe<kj::String>>(
      kj::Own<kj::AsyncIoStream> stream, capnp::Capability::Client bootstrap,
      kj::Promise<void> stop, kj::Own<Budget::Account> account, kj::Own<CallObserver> observer)>
      serve;
};
// A connection that serveStreams() has established. `serve` resolves when the connection has ended,
// with the error unless the peer just disconnected; `idleSince` as in SessionParams.
struct ServedStream {
  kj::Own<kj::AsyncIoStream> stream;
  kj::Function<kj::Promise<kj::Maybe<kj::String>>(kj::Own<kj::AsyncIoStream> stream)> serve;
  kj::Maybe<IdleSince> idleSince = nullptr;
};
// Serves a protocol other than Cap'n Proto, alone on its port, with the limits of connections and
// of the handshake. `establish` gets each new connection with the address of its peer.
kj::Promise<void> serveStreams(
    kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::AutoCloseFd listening,
    kj::Function<kj::Promise<ServedStream>(kj::Own<kj::AsyncIoStream>, kj::StringPtr address)>
        establish,
    ServerLimits limits);
// Serves TLS connections. If `openSession` throws, the connection is closed and the error logged.
// When `stop` resolves, no further connection is accepted (new ones wait in the kernel's queue for
// the next server on this socket), and each connection is closed as soon as its calls are answered.
// Resolves when no connection is left, at the latest after `drainTimeout`.
kj::Promise<void> serveTls(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                           kj::AutoCloseFd listening, TlsEndpoint& tls,
                           kj::Function<SessionParams(const Peer&)> openSession,
                           ServerLimits limits = {}, kj::Promise<void> stop = kj::NEVER_DONE,
                           kj::Maybe<OtherProtocol> other = nullptr);

// Serves one connection on an established stream. Resolves when the connection has ended, with the
// error unless the peer just disconnected. `stop` as above, without the timeout.
kj::Promise<kj::Maybe<kj::String>> serveConnection(
    kj::Timer& timer, kj::Own<kj::AsyncIoStream> stream, capnp::Capability::Client bootstrap,
    ServerLimits limits = {}, kj::Promise<void> stop = kj::NEVER_DONE,
    kj::Own<Budget::Account> account = {}, kj::Own<CallObserver> observer = {});

// Makes a listening socket: close-on-exec, non-blocking. Replaces a stale Unix socket file, with
// this mode and owner.
kj::AutoCloseFd listenUnix(kj::StringPtr path, mode_t mode, unsigned uid = 0, unsigned gid = 0);
kj::AutoCloseFd listenTcp(kj::StringPtr address, uint16_t port, int backlog = 512);

// Sets the options of a TCP connection: no delay, and a peer that has vanished is detected after
// this time, whether or not something is being sent to it.
void tuneTcp(kj::AsyncIoStream& stream, kj::Duration silence = 2 * kj::MINUTES);

// Returns the listening socket inherited from the supervisor; the environment variable holds its
// descriptor. Throws InvalidArgument, naming the variable, if there is no such socket.
kj::AutoCloseFd inheritedSocket(kj::StringPtr variable);

// A connection as a client sees it: the bootstrap capability and the stream under it.
class Connection {
 public:
  virtual ~Connection() noexcept(false) = default;
  // Returns the bootstrap capability, as often as the caller likes; when the connection has ended,
  // calls to it fail.
  virtual capnp::Capability::Client bootstrap() = 0;
  // Resolves when the server has disconnected or exceeded a limit. The caller must then drop this
  // object, which closes the connection.
  virtual kj::Promise<void> onDisconnect() = 0;
  // Returns false as soon as the end was observed, even before calls in flight fail.
  virtual bool alive() const = 0;
};

// Limits that a client imposes on its server: the same as a server imposes on its clients. No
// answer of our servers is larger: a list of resources of one daemon has at most 7 MiB
// (machined/resources/resource-access.h), and one resource, like a config, at most 4 MiB.
struct DialLimits {
  uint64_t messageWords = 1u << 20;   // 8 MiB
  uint64_t inFlightWords = 1u << 20;  // for calls by the server: sinks of streams
  unsigned questions = 4096;
  unsigned capabilities = 16384;
  size_t queuedBytes = 8u << 20;
  // Account that is charged for a message while it arrives, and for bytes that wait to be sent;
  // null for no account.
  kj::Own<Budget::Account> account;

  // Returns limits for a server whose identity is not verified, or that is sent only small
  // requests: 256 KiB, and hardly any calls by the server.
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
// Secures an established connection.
using Secure =
    kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>(kj::Own<kj::AsyncIoStream> stream)>;
// Connects to `address`, which is numeric (IPv4 or IPv6, no port). Fails with Unavailable naming
// address, port and cause ("connection refused", "no answer within 5 s", the TLS alert). The
// deadline includes the handshake. `limits` is called after `secure`, when the server's identity is
// known. Later, a vanished peer is detected after kDialSilence, because a caller waits for its
// answer.
constexpr kj::Duration kDialSilence = 16 * kj::SECONDS;
kj::Promise<kj::Own<Connection>> connectTcp(
    kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::StringPtr address, uint16_t port,
    Secure secure, kj::Duration deadline = 10 * kj::SECONDS,
    kj::Function<DialLimits()> limits = [] { return DialLimits(); });

// Returns a connection on a secured stream that the caller has established, such as one through a
// proxy. `where` is for the texts of errors.
kj::Own<Connection> connectOn(kj::Timer& timer, kj::Own<kj::AsyncIoStream> secured,
                              kj::StringPtr where, DialLimits limits = {});

// Returns a capability that dials again after a disconnect: calls in flight fail with Unavailable,
// the next call dials. For daemons of the same machine, which may restart at any time. A capability
// returned by a call lives as long as its connection, and the connection at most as long as this
// capability.
capnp::Capability::Client reconnecting(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                       kj::String unixPath);

// Does the same for any `dial`, which returns a capability and its connection.
struct Dialed {
  kj::Own<Connection> connection;
  capnp::Capability::Client capability;
};
capnp::Capability::Client reconnecting(kj::Function<kj::Promise<Dialed>()> dial);

// Connects like connectTcp(), from the address `source` of the node; if it is nullptr, the kernel
// chooses the address.
kj::Promise<kj::Own<Connection>> connectTcpFrom(kj::Maybe<Ip> source,
                                                kj::LowLevelAsyncIoProvider& lowLevel,
                                                kj::Timer& timer, kj::StringPtr address,
                                                uint16_t port, Secure secure, kj::Duration deadline,
                                                kj::Function<DialLimits()> limits);

}  // namespace talos
