#include "common/wire/rpc-server.h"

#include <capnp/rpc-twoparty.h>
#include <errno.h>
#include <kj/debug.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "common/base/signal.h"
#include "common/base/within.h"
#include "common/net/ip.h"
#include "common/net/tcp-info.h"
#include "common/wire/bounded-stream.h"
#include "common/wire/log-line-limit.h"
#include "common/wire/peek.h"

namespace talos {
namespace {

// One served connection. Ends when the peer disconnects or exceeds a limit.
class Session {
 public:
  Session(kj::Timer& timer, kj::Own<kj::AsyncIoStream> stream, capnp::Capability::Client bootstrap,
          const ServerLimits& limits, kj::Own<Budget::Account> account,
          kj::Own<CallObserver> observer)
      : stream(kj::mv(stream)),
        guard(*this->stream, timer,
              {.questions = limits.questions,
               .capabilities = limits.capabilities,
               .queuedBytes = limits.queuedBytes,
               .messageWords = limits.messageWords},
              nullptr, kj::mv(account), kj::mv(observer)),
        network(guard, capnp::rpc::twoparty::Side::SERVER, readerOptions(limits)),
        rpc(capnp::makeRpcServer(network, kj::mv(bootstrap))) {
    guard.watch(network);
    rpc.setFlowLimit(limits.inFlightWords);
  }

  // Resolves with the error, if the connection did not end in order.
  kj::Promise<kj::Maybe<kj::String>> run(kj::Timer& timer, kj::Promise<void> stop) {
    // A peer that is disconnected gets a moment to read the error.
    auto failed = guard.onFailure().then([this, &timer]() -> kj::Promise<void> {
      if (guard.peerStuck()) return kj::READY_NOW;
      return timer.afterDelay(kErrorTimeout);
    });
    // The connection ends when the peer has seen our end and disconnects.
    auto draining = stop.then([this]() { return guard.drain(); }).then([]() -> kj::Promise<void> {
      return kj::NEVER_DONE;
    });
    co_await network.onDisconnect().exclusiveJoin(kj::mv(failed)).exclusiveJoin(kj::mv(draining));
    if (guard.ended()) co_return nullptr;
    KJ_IF_MAYBE (error, guard.failure()) {
      auto text = kj::str(*error);
      if (!guard.peerStuck()) co_await linger(timer);
      co_return kj::mv(text);
    }
    co_return kj::str("the peer broke the protocol");
  }

 private:
  static constexpr auto kErrorTimeout = 2 * kj::SECONDS;

  // Discards the peer's further bytes until the peer has read the error: closing earlier would make
  // its writes fail, or reset the connection with the error on its way.
  kj::Promise<void> linger(kj::Timer& timer) {
    auto discard = [&]() -> kj::Promise<void> {
      kj::byte buffer[4096];
      while (co_await stream->tryRead(buffer, 1, sizeof buffer) > 0) {
        co_await timer.afterDelay(1 * kj::MILLISECONDS);  // a flood is not worth a turn
      }
    };
    co_await discard()
        .catch_([](kj::Exception&&) {})
        .exclusiveJoin(timer.afterDelay(kErrorTimeout));
  }

  kj::Own<kj::AsyncIoStream> stream;
  BoundedMessageStream guard;
  capnp::TwoPartyVatNetwork network;
  capnp::RpcSystem<capnp::rpc::twoparty::VatId> rpc;

  static capnp::ReaderOptions readerOptions(const ServerLimits& limits) {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = limits.messageWords;
    return options;
  }
};

// The peer of a new connection.
struct Caller {
  kj::String key;   // connections are counted by it
  kj::String text;  // for the log
};

struct Established {
  kj::Own<kj::AsyncIoStream> stream;
  SessionParams session;
  // Set for another protocol than Cap'n Proto.
  kj::Maybe<decltype(ServedStream::serve)> serve = nullptr;
};

class Listener final : private kj::TaskSet::ErrorHandler {
 public:
  using Identify = kj::Function<Caller(kj::AsyncIoStream&)>;
  using Establish =
      kj::Function<kj::Promise<Established>(kj::Own<kj::AsyncIoStream>, const Caller&)>;

  Listener(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::AutoCloseFd listening,
           ServerLimits limits, Identify identify, Establish establish, kj::Promise<void> stop,
           kj::Maybe<OtherProtocol> other = nullptr)
      : timer(timer),
        limits(limits),
        fd(listening.get()),
        receiver(lowLevel.wrapListenSocketFd(kj::mv(listening))),
        identify(kj::mv(identify)),
        establish(kj::mv(establish)),
        other(kj::mv(other)),
        lines(timer),
        stop(stop.fork()),
        tasks(*this) {}

  kj::Promise<void> run() {
    co_await acceptAll().exclusiveJoin(stop.addBranch());
    co_await tasks.onEmpty().exclusiveJoin(timer.afterDelay(limits.drainTimeout));
  }

 private:
  kj::Promise<void> acceptAll() {
    for (;;) {
      if (limits.queue) co_await waitForRoom();
      auto accepted = co_await receiver->accept().then(
          [](kj::Own<kj::AsyncIoStream>&& stream) -> kj::Maybe<kj::Own<kj::AsyncIoStream>> {
            return kj::mv(stream);
          },
          [this](kj::Exception&& e) -> kj::Maybe<kj::Own<kj::AsyncIoStream>> {
            if (!stillListening()) kj::throwFatalException(kj::mv(e));
            log::error("cannot accept a connection", {{"error", messageOf(e)}});
            return nullptr;
          });
      KJ_IF_MAYBE (stream, accepted) {
        start(kj::mv(*stream));
      } else {
        co_await timer.afterDelay(100 *
                                  kj::MILLISECONDS);  // out of descriptors or memory: do not spin
      }
    }
  }

  kj::Timer& timer;
  ServerLimits limits;
  int fd;
  kj::Own<kj::ConnectionReceiver> receiver;
  Identify identify;
  Establish establish;
  kj::Maybe<OtherProtocol> other;
  LineLimit lines;
  kj::ForkedPromise<void> stop;
  unsigned total = 0, waitingForOwnSlot = 0;
  kj::HashMap<kj::String, unsigned> perKey;
  uint64_t nextNumber = 0;
  Signal slotFreed;
  class Evictable;
  kj::TreeMap<uint64_t, Evictable*> evictable;  // oldest first
  kj::TaskSet tasks;                            // destroyed before what connections use

  // Counts a connection for as long as it lives.
  class Slot {
   public:
    Slot(Listener& listener, kj::StringPtr key) : listener(listener), key(kj::str(key)) {
      ++listener.total;
      ++listener.perKey.findOrCreate(
          key, [&]() { return kj::HashMap<kj::String, unsigned>::Entry{kj::str(key), 0}; });
    }
    ~Slot() noexcept(false) {
      --listener.total;
      listener.slotFreed.raise();
      auto& count = KJ_ASSERT_NONNULL(listener.perKey.find(key));
      if (--count == 0) listener.perKey.erase(key);
    }
    KJ_DISALLOW_COPY_AND_MOVE(Slot);

   private:
    Listener& listener;
    kj::String key;
  };

  // Registers a connection that can be evicted for a newer one: until its handshake is finished,
  // and after that, if the session has `idleSince`, while it is idle.
  class Evictable {
   public:
    Evictable(Listener& listener, const Caller& caller, int socket)
        : caller(caller),
          listener(listener),
          socket(socket),
          since(listener.timer.now()),
          number(listener.nextNumber++) {
      listener.evictable.insert(number, this);
    }
    ~Evictable() noexcept(false) { listener.evictable.erase(number); }
    KJ_DISALLOW_COPY_AND_MOVE(Evictable);

    void established(kj::Maybe<IdleSince> sessionIdleSince) {
      handshakeDone = true;
      idleSince = kj::mv(sessionIdleSince);
      if (idleSince == nullptr) listener.evictable.erase(number);
    }
    // Returns when the connection may be evicted if nothing happens on it until then; nullptr if it
    // is in use.
    kj::Maybe<kj::TimePoint> due(kj::Duration silence) {
      if (handshakeDone) {
        return KJ_ASSERT_NONNULL(idleSince)().map([](kj::TimePoint t) { return t + kIdle; });
      }
      bool active = listener.timer.now() - since >= silence && peerHasSpoken(socket);
      return since + (active ? kSlowHandshake : silence);
    }
    bool inHandshake() const { return !handshakeDone; }

    const Caller& caller;
    kj::Canceler canceler;

   private:
    Listener& listener;
    const int socket;
    const kj::TimePoint since;
    const uint64_t number;
    bool handshakeDone = false;
    kj::Maybe<IdleSince> idleSince;
  };
  // Cancels a connection. It is unregistered at once, so that it is not chosen twice.
  void evict(uint64_t number) {
    auto& connection = *KJ_ASSERT_NONNULL(evictable.find(number));
    evictable.erase(number);
    connection.canceler.cancel(
        error(ErrorKind::kResourceExhausted, "closed to make room for a newer connection"));
  }

  static constexpr size_t kPrefaceSize = 4;
  // Times that a connection is kept while others wait: one whose peer has sent nothing, normally
  // and when many wait; one with a slow handshake; an idle one: a client makes its first call
  // together with the end of its handshake.
  static constexpr auto kSilentTimeout = 1 * kj::SECONDS,
                        kSilentTimeoutInFlood = 50 * kj::MILLISECONDS,
                        kSlowHandshake = 2 * kj::SECONDS, kIdle = 100 * kj::MILLISECONDS;
  static constexpr unsigned kFlood = 256;  // waiting connections
  // Connections that wait for a slot of their peer: a descriptor and a kibibyte each.
  static constexpr unsigned kMostWaiting = 256;

  // Evicts all connections (of this peer, if `key` is given) whose time is up. Returns when the
  // next one may be evicted.
  kj::TimePoint evictOverdue(kj::Duration silence, kj::Maybe<kj::StringPtr> key) {
    auto now = timer.now();
    auto next = now + kIdle;  // by then it may be a flood, or one may be idle
    kj::Vector<uint64_t> overdue;
    for (auto& entry : evictable) {
      kj::StringPtr peer = entry.value->caller.key;
      if (peer != key.orDefault(peer)) continue;
      KJ_IF_MAYBE (due, entry.value->due(silence)) {
        if (*due <= now) {
          overdue.add(entry.key);
        } else {
          next = kj::min(next, *due);
        }
      }
    }
    for (auto number : overdue) evict(number);
    return next;
  }

  // Waits until a connection can be accepted: one ends, or is evicted.
  kj::Promise<void> waitForRoom() {
    while (total >= limits.connections) {
      auto silence = waitingConnections(fd) > kFlood ? kSilentTimeoutInFlood : kSilentTimeout;
      auto next = evictOverdue(silence, nullptr);
      co_await slotFreed.next().exclusiveJoin(timer.atTime(next));
    }
  }

  bool stillListening() const {
    int listening = 0;
    socklen_t length = sizeof listening;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening != 0;
  }

  void start(kj::Own<kj::AsyncIoStream> stream) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   auto caller = identify(*stream);
                   if (limits.queue && slotsOf(caller) >= limits.connectionsPerPeer) {
                     tasks.add(serveWhenFree(kj::mv(stream), kj::mv(caller)));
                   } else if (admit(caller)) {
                     tasks.add(serve(kj::mv(stream), kj::mv(caller)));
                   }
                 })) {
      lines.warn("connection closed", "unknown", "unknown", messageOf(*e));
    }
  }

  unsigned slotsOf(const Caller& caller) {
    return perKey.find(caller.key).map([](unsigned& count) { return count; }).orDefault(0);
  }

  // Serves a connection, or lets it wait for a slot. Many nodes can look like one peer: a rack in
  // one IPv6 subnet, or all nodes behind one address. So when a peer uses all its slots, its
  // further connections wait for one of them, at most for the handshake timeout.
  kj::Promise<void> serveWhenFree(kj::Own<kj::AsyncIoStream> stream, Caller caller) {
    auto end = timer.now() + limits.handshake;
    while (slotsOf(caller) >= limits.connectionsPerPeer || total >= limits.connections) {
      if (waitingForOwnSlot >= kMostWaiting || timer.now() >= end) {
        warn("connection refused", caller,
             kj::str("the peer has ", slotsOf(caller), " connections, which is the limit"));
        co_return;
      }
      ++waitingForOwnSlot;
      KJ_DEFER(--waitingForOwnSlot);
      auto next = evictOverdue(kSilentTimeout, kj::StringPtr(caller.key));
      co_await slotFreed.next().exclusiveJoin(timer.atTime(next));
    }
    co_await serve(kj::mv(stream), kj::mv(caller));
  }

  bool admit(const Caller& caller) {
    auto mine = slotsOf(caller);
    if (mine >= limits.connectionsPerPeer && !evictOldest(kj::StringPtr(caller.key))) {
      warn("connection refused", caller,
           kj::str("the peer has ", mine, " connections, which is the limit"));
      return false;
    }
    if (total < limits.connections || evictOldest(nullptr)) return true;
    warn("connection refused", caller,
         kj::str("all ", limits.connections, " connections are in use"));
    return false;
  }

  void warn(kj::StringPtr message, const Caller& caller, kj::StringPtr error) {
    lines.warn(message, caller.key, caller.text, error);
  }

  // Evicts one connection, of this peer if `key` is given, idle connections first: so a peer that
  // uses all its slots locks out neither itself nor others behind its address.
  bool evictOldest(kj::Maybe<kj::StringPtr> key) {
    kj::Maybe<uint64_t> oldest;
    for (auto& entry : evictable) {
      kj::StringPtr peer = entry.value->caller.key;
      if (peer != key.orDefault(peer)) continue;
      if (entry.value->inHandshake()) {
        if (oldest == nullptr) oldest = entry.key;
        continue;
      }
      KJ_IF_MAYBE (due, entry.value->due(kSilentTimeout)) {
        if (*due > timer.now()) continue;
        oldest = entry.key;
        break;
      }
    }
    KJ_IF_MAYBE (number, oldest) {
      evict(*number);
      return true;
    }
    return false;
  }

  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> stream, Caller caller) {
    Slot slot(*this, caller.key);
    log::debug("connection accepted", {{"peer", caller.text}, {"connections", total}});
    KJ_DEFER(log::debug("connection ended", {{"peer", caller.text}}));
    Evictable connection(*this, caller, stream->getFd().orDefault(-1));
    auto started = timer.now();
    auto established = co_await handshake(kj::mv(stream), connection);
    KJ_IF_MAYBE (ready, established) {
      kj::Maybe<OtherProtocol&> protocol;
      KJ_IF_MAYBE (o, other) {
        auto left = limits.handshake - (timer.now() - started);
        KJ_IF_MAYBE (uses, co_await usesOther(*ready, connection, *o, left)) {
          if (*uses) protocol = *o;
        } else {
          co_return;
        }
      }
      connection.established(kj::mv(ready->session.idleSince));
      auto until = ready->session.until.fork();
      auto served =
          serveEither(kj::mv(*ready), protocol, stop.addBranch().exclusiveJoin(until.addBranch()));
      auto timedOut = until.addBranch()
                          .then([this]() { return timer.afterDelay(kDrainTime); })
                          .then([]() -> kj::Maybe<kj::String> { return nullptr; });
      auto error =
          co_await connection.canceler.wrap(served.exclusiveJoin(kj::mv(timedOut)))
              .catch_([](kj::Exception&& e) -> kj::Maybe<kj::String> { return messageOf(e); });
      KJ_IF_MAYBE (text, error) {
        warn("connection closed", caller, *text);
      }
    }
  }

  // Returns true if the client starts with the other protocol's preface; nullptr if it has
  // disconnected before.
  kj::Promise<kj::Maybe<bool>> usesOther(Established& ready, Evictable& connection,
                                         OtherProtocol& other, kj::Duration left) {
    auto text = kj::str("sent nothing within ", limits.handshake);
    return connection.canceler
        .wrap(within(timer, left, peek(kj::mv(ready.stream), kPrefaceSize), kj::mv(text)))
        .then(
            [&ready, &other](Peeked&& peeked) -> kj::Maybe<bool> {
              bool uses = peeked.bytes == other.preface.asBytes();
              bool gone = peeked.bytes.size() < kPrefaceSize;
              ready.stream = kj::mv(peeked.stream);
              if (gone) return nullptr;
              return uses;
            },
            [this, &connection](kj::Exception&& e) -> kj::Maybe<bool> {
              if (kindOf(e) != ErrorKind::kUnavailable) {
                warn("connection closed", connection.caller, messageOf(e));
              }
              return nullptr;
            });
  }

  kj::Promise<kj::Maybe<kj::String>> serveEither(Established ready,
                                                 kj::Maybe<OtherProtocol&> protocol,
                                                 kj::Promise<void> stop) {
    auto& session = ready.session;
    KJ_IF_MAYBE (serve, ready.serve) {
      auto serving = (*serve)(kj::mv(ready.stream));
      return serving.attach(kj::mv(*serve));
    }
    KJ_IF_MAYBE (o, protocol) {
      return o->serve(kj::mv(ready.stream), kj::mv(session.bootstrap), kj::mv(stop),
                      kj::mv(session.account), kj::mv(session.observer));
    }
    return serveConnection(timer, kj::mv(ready.stream), kj::mv(session.bootstrap), limits,
                           kj::mv(stop), kj::mv(session.account), kj::mv(session.observer));
  }

  kj::Promise<kj::Maybe<Established>> handshake(kj::Own<kj::AsyncIoStream> stream,
                                                Evictable& connection) {
    auto& caller = connection.caller;
    auto establishing = kj::evalNow([&]() { return establish(kj::mv(stream), caller); });
    auto text = kj::str("no handshake within ", limits.handshake);
    return connection.canceler
        .wrap(within(timer, limits.handshake, kj::mv(establishing), kj::mv(text)))
        .then([](Established&& ready) -> kj::Maybe<Established> { return kj::mv(ready); },
              [this, &caller](kj::Exception&& e) -> kj::Maybe<Established> {
                // A probe that only opens and closes a connection is not logged.
                if (kindOf(e) != ErrorKind::kUnavailable) {
                  warn("handshake refused", caller, messageOf(e));
                }
                return nullptr;
              });
  }

  void taskFailed(kj::Exception&& e) override {
    lines.warn("connection closed", "unknown", "unknown", messageOf(e));
  }
};

kj::Promise<void> run(kj::Own<Listener> listener) {
  auto promise = listener->run();
  return promise.attach(kj::mv(listener));
}

Caller tcpCaller(kj::AsyncIoStream& stream) {
  sockaddr_storage name{};
  kj::uint length = sizeof name;
  stream.getpeername(reinterpret_cast<sockaddr*>(&name), &length);
  auto address = KJ_ASSERT_NONNULL(Endpoint::of(name)).address.unmapped();
  // One node can use all addresses of an IPv6 subnet.
  auto counted = address.family() == AF_INET6 ? address.masked(64) : address;
  return Caller{counted.toString(), address.toString()};
}

UnixPeer unixPeer(kj::AsyncIoStream& stream) {
  ucred credentials{};
  kj::uint length = sizeof credentials;
  stream.getsockopt(SOL_SOCKET, SO_PEERCRED, &credentials, &length);
  return {credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace

kj::Promise<kj::Maybe<kj::String>> serveConnection(kj::Timer& timer,
                                                   kj::Own<kj::AsyncIoStream> stream,
                                                   capnp::Capability::Client bootstrap,
                                                   ServerLimits limits, kj::Promise<void> stop,
                                                   kj::Own<Budget::Account> account,
                                                   kj::Own<CallObserver> observer) {
  auto session = kj::heap<Session>(timer, kj::mv(stream), kj::mv(bootstrap), limits,
                                   kj::mv(account), kj::mv(observer));
  auto running = session->run(timer, kj::mv(stop));
  return running.attach(kj::mv(session));
}

kj::Promise<void> serveUnix(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                            kj::AutoCloseFd listening,
                            kj::Function<capnp::Capability::Client(const UnixPeer&)> bootstrap,
                            ServerLimits limits) {
  auto identify = [](kj::AsyncIoStream& stream) {
    auto peer = unixPeer(stream);
    return Caller{kj::str(peer.uid), kj::str("uid ", peer.uid, " pid ", peer.pid)};
  };
  auto establish = [bootstrap = kj::mv(bootstrap)](
                       kj::Own<kj::AsyncIoStream> stream,
                       const Caller&) mutable -> kj::Promise<Established> {
    auto capability = bootstrap(unixPeer(*stream));
    return Established{kj::mv(stream), SessionParams{.bootstrap = kj::mv(capability)}};
  };
  return run(kj::heap<Listener>(lowLevel, timer, kj::mv(listening), limits, kj::mv(identify),
                                kj::mv(establish), kj::NEVER_DONE));
}

kj::Promise<void> serveTls(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                           kj::AutoCloseFd listening, TlsEndpoint& tls,
                           kj::Function<SessionParams(const Peer&)> openSession,
                           ServerLimits limits, kj::Promise<void> stop,
                           kj::Maybe<OtherProtocol> other) {
  auto establish = [&tls, openSession = kj::mv(openSession)](
                       kj::Own<kj::AsyncIoStream> stream,
                       const Caller& caller) mutable -> kj::Promise<Established> {
    tuneTcp(*stream);
    return tls.accept(kj::mv(stream), kj::str(caller.text))
        .then([&openSession](TlsEndpoint::Accepted&& accepted) {
          auto session = openSession(accepted.peer);
          return Established{kj::mv(accepted.stream), kj::mv(session)};
        });
  };
  return run(kj::heap<Listener>(lowLevel, timer, kj::mv(listening), limits, tcpCaller,
                                kj::mv(establish), kj::mv(stop), kj::mv(other)));
}

kj::Promise<void> serveStreams(
    kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::AutoCloseFd listening,
    kj::Function<kj::Promise<ServedStream>(kj::Own<kj::AsyncIoStream>, kj::StringPtr address)>
        establish,
    ServerLimits limits) {
  auto adapted = [establish = kj::mv(establish)](
                     kj::Own<kj::AsyncIoStream> stream,
                     const Caller& caller) mutable -> kj::Promise<Established> {
    tuneTcp(*stream);
    return establish(kj::mv(stream), caller.text).then([](ServedStream&& served) {
      SessionParams session{.bootstrap = nullptr, .idleSince = kj::mv(served.idleSince)};
      return Established{kj::mv(served.stream), kj::mv(session), kj::mv(served.serve)};
    });
  };
  return run(kj::heap<Listener>(lowLevel, timer, kj::mv(listening), limits, tcpCaller,
                                kj::mv(adapted), kj::NEVER_DONE));
}

}  // namespace talos
