// The client half of common/wire/rpc-server.h.
#include <capnp/rpc-twoparty.h>
#include <errno.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/base/within.h"
#include "common/net/ip.h"
#include "common/wire/bounded-stream.h"
#include "common/wire/rpc-server.h"

namespace talos {
namespace {

class ConnectionImpl final : public Connection {
 public:
  ConnectionImpl(kj::Timer& timer, kj::Own<kj::AsyncIoStream> stream, kj::String where,
                 DialLimits limits)
      : stream(kj::mv(stream)),
        messages(*this->stream, timer,
                 {.questions = limits.questions,
                  .capabilities = limits.capabilities,
                  .queuedBytes = limits.queuedBytes,
                  .messageWords = limits.messageWords},
                 kj::mv(where), kj::mv(limits.account)),
        network(messages, capnp::rpc::twoparty::Side::CLIENT, readerOptions(limits)),
        rpc(capnp::makeRpcClient(network)) {
    messages.watch(network);
    rpc.setFlowLimit(limits.inFlightWords);
  }

  // Requests the bootstrap once: when a connection has ended, the library would start it again on a
  // stream that it has shut down, and abort the process.
  capnp::Capability::Client bootstrap() override {
    KJ_IF_MAYBE (known, main) return *known;
    capnp::MallocMessageBuilder message(8);
    auto server = message.getRoot<capnp::rpc::twoparty::VatId>();
    server.setSide(capnp::rpc::twoparty::Side::SERVER);
    return main.emplace(rpc.bootstrap(server));
  }
  kj::Promise<void> onDisconnect() override {
    return network.onDisconnect().exclusiveJoin(messages.onFailure());
  }
  bool alive() const override { return !messages.ended() && messages.failure() == nullptr; }

 private:
  kj::Own<kj::AsyncIoStream> stream;
  BoundedMessageStream messages;
  capnp::TwoPartyVatNetwork network;
  capnp::RpcSystem<capnp::rpc::twoparty::VatId> rpc;
  kj::Maybe<capnp::Capability::Client> main;

  // Callers often read an answer twice, to compare and to store it.
  static capnp::ReaderOptions readerOptions(const DialLimits& limits) {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 4 * limits.messageWords;
    return options;
  }
};

// Returns "Connection refused" for "connect(): Connection refused"; our own errors lose their kind.
kj::String causeOf(const kj::Exception& e) {
  auto text = messageOf(e);
  constexpr kj::StringPtr kMark = "(): "_kj;
  for (size_t i = 0; i + kMark.size() < text.size(); ++i) {
    if (text.slice(i).startsWith(kMark)) return kj::str(text.slice(i + kMark.size()));
  }
  return text;
}

template <typename T>
kj::Promise<T> orUnavailable(kj::Promise<T> promise, kj::String where) {
  return promise.catch_([where = kj::mv(where)](kj::Exception&& e) -> kj::Promise<T> {
    return error(ErrorKind::kUnavailable, kj::str(where, ": ", causeOf(e)));
  });
}

kj::Promise<kj::Own<Connection>> tryUnix(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                         kj::String path, DialLimits limits) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  KJ_REQUIRE(path.size() < sizeof name.sun_path, "the path of a socket is too long");
  memcpy(name.sun_path, path.begin(), path.size());
  for (;;) {
    int fd;
    KJ_SYSCALL(fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    kj::AutoCloseFd owned(fd);
    if (connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0) {
      co_return kj::heap<ConnectionImpl>(timer, lowLevel.wrapSocketFd(kj::mv(owned)), kj::mv(path),
                                         kj::mv(limits));
    }
    // A Unix socket never reports "in progress"; "again" means that its queue is full just now.
    if (errno != EAGAIN) KJ_FAIL_SYSCALL("connect()", errno);
    co_await timer.afterDelay(10 * kj::MILLISECONDS);
  }
}

kj::Promise<kj::Own<Connection>> tryTcp(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                        Secure secure, SocketName name, kj::String where,
                                        kj::Function<DialLimits()> limits, kj::Maybe<Ip> source) {
  int fd;
  KJ_SYSCALL(fd = socket(name.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd own(fd);
  KJ_IF_MAYBE (address, source) {
    auto from = Endpoint{*address}.socketName();
    KJ_SYSCALL(bind(fd, from.get(), from.size()), address->toString());
  }
  auto stream = co_await lowLevel.wrapConnectingSocketFd(kj::mv(own), name.get(), name.size());
  tuneTcp(*stream, kDialSilence);
  auto secured = co_await secure(kj::mv(stream));
  co_return kj::heap<ConnectionImpl>(timer, kj::mv(secured), kj::mv(where), limits());
}

// A function that makes connections; each attempt keeps it alive.
struct Dialer : kj::Refcounted {
  explicit Dialer(kj::Function<kj::Promise<Dialed>()> dial) : dial(kj::mv(dial)) {}
  kj::Function<kj::Promise<Dialed>()> dial;
};

// The state of one connection attempt and its connection.
struct Attempt : kj::Refcounted {
  kj::Maybe<kj::Own<Connection>> connection;
  kj::Maybe<kj::Promise<void>> watching;
  bool dead = false;

  bool usable() const {
    if (dead) return false;
    KJ_IF_MAYBE (c, connection) {
      return (*c)->alive();
    }
    return true;  // still dialling
  }

  kj::Own<capnp::ClientHook> up(Dialed dialed) {
    watching = dialed.connection->onDisconnect()
                   .then([this]() { dead = true; }, [this](kj::Exception&&) { dead = true; })
                   .eagerlyEvaluate(nullptr);
    connection = kj::mv(dialed.connection);
    return capnp::ClientHook::from(kj::mv(dialed.capability));
  }
};

struct Redial : kj::Refcounted {
  explicit Redial(kj::Function<kj::Promise<Dialed>()> dial)
      : dialer(kj::refcounted<Dialer>(kj::mv(dial))), tasks(errors) {}

  capnp::ClientHook& current() {
    KJ_IF_MAYBE (existing, latest) {
      if (existing->state->usable()) return *existing->target;
      // In a later turn: the old connection may be calling this.
      tasks.add(kj::evalLast([old = kj::mv(*existing)]() {}));
      latest = nullptr;
    }
    auto state = kj::refcounted<Attempt>();
    auto connecting = kj::evalNow([this]() { return dialer->dial(); })
                          .attach(kj::addRef(*dialer))
                          .then([state = kj::addRef(*state)](
                                    Dialed&& dialed) mutable { return state->up(kj::mv(dialed)); },
                                [state = kj::addRef(*state)](
                                    kj::Exception&& e) mutable -> kj::Own<capnp::ClientHook> {
                                  state->dead = true;
                                  kj::throwFatalException(kj::mv(e));
                                });
    auto target = capnp::newLocalPromiseClient(kj::mv(connecting));
    return *latest.emplace(Current{kj::mv(state), kj::mv(target)}).target;
  }

 private:
  struct Current {
    kj::Own<Attempt> state;
    kj::Own<capnp::ClientHook> target;  // queues calls until the dialling is done
  };
  struct Errors final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}
  };
  kj::Own<Dialer> dialer;
  kj::Maybe<Current> latest;
  Errors errors;
  kj::TaskSet tasks;
};

// A resolved capability whose calls go to the current connection.
class ReconnectingHook final : public capnp::ClientHook, public kj::Refcounted {
 public:
  explicit ReconnectingHook(kj::Own<Redial> redial) : redial(kj::mv(redial)) {}

  capnp::Request<capnp::AnyPointer, capnp::AnyPointer> newCall(
      uint64_t interfaceId, uint16_t methodId, kj::Maybe<capnp::MessageSize> sizeHint,
      CallHints hints) override {
    return redial->current().newCall(interfaceId, methodId, sizeHint, hints);
  }
  VoidPromiseAndPipeline call(uint64_t interfaceId, uint16_t methodId,
                              kj::Own<capnp::CallContextHook>&& context, CallHints hints) override {
    return redial->current().call(interfaceId, methodId, kj::mv(context), hints);
  }
  kj::Maybe<capnp::ClientHook&> getResolved() override { return nullptr; }
  kj::Maybe<kj::Promise<kj::Own<capnp::ClientHook>>> whenMoreResolved() override { return nullptr; }
  kj::Own<capnp::ClientHook> addRef() override { return kj::addRef(*this); }
  const void* getBrand() override { return &kBrand; }
  kj::Maybe<int> getFd() override { return nullptr; }

 private:
  static constexpr char kBrand = 0;
  kj::Own<Redial> redial;
};

}  // namespace

kj::Promise<kj::Own<Connection>> connectUnix(kj::LowLevelAsyncIoProvider& lowLevel,
                                             kj::Timer& timer, kj::StringPtr path,
                                             kj::Duration deadline, DialLimits limits) {
  auto trying = tryUnix(lowLevel, timer, kj::str(path), kj::mv(limits));
  return orUnavailable(
      within(timer, deadline, kj::mv(trying), kj::str("no answer within ", deadline)),
      kj::str(path));
}

kj::Promise<kj::Own<Connection>> connectTcpFrom(kj::Maybe<Ip> source,
                                                kj::LowLevelAsyncIoProvider& lowLevel,
                                                kj::Timer& timer, kj::StringPtr address,
                                                uint16_t port, Secure secure, kj::Duration deadline,
                                                kj::Function<DialLimits()> limits) {
  Endpoint endpoint{Ip::require(address).unmapped(), port};
  auto where = endpoint.toString();
  auto trying = tryTcp(lowLevel, timer, kj::mv(secure), endpoint.socketName(), kj::str(where),
                       kj::mv(limits), source);
  return orUnavailable(
      within(timer, deadline, kj::mv(trying), kj::str("no answer within ", deadline)),
      kj::mv(where));
}

kj::Promise<kj::Own<Connection>> connectTcp(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                            kj::StringPtr address, uint16_t port, Secure secure,
                                            kj::Duration deadline,
                                            kj::Function<DialLimits()> limits) {
  return connectTcpFrom(nullptr, lowLevel, timer, address, port, kj::mv(secure), deadline,
                        kj::mv(limits));
}

kj::Own<Connection> connectOn(kj::Timer& timer, kj::Own<kj::AsyncIoStream> secured,
                              kj::StringPtr where, DialLimits limits) {
  return kj::heap<ConnectionImpl>(timer, kj::mv(secured), kj::str(where), kj::mv(limits));
}

capnp::Capability::Client reconnecting(kj::Function<kj::Promise<Dialed>()> dial) {
  return capnp::Capability::Client(
      kj::refcounted<ReconnectingHook>(kj::refcounted<Redial>(kj::mv(dial))));
}

capnp::Capability::Client reconnecting(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                       kj::String unixPath) {
  return reconnecting([&lowLevel, &timer, path = kj::mv(unixPath)]() {
    return connectUnix(lowLevel, timer, path).then([](kj::Own<Connection>&& connection) {
      auto capability = connection->bootstrap();
      return Dialed{kj::mv(connection), kj::mv(capability)};
    });
  });
}

}  // namespace talos
