#include "talosctl/cluster/network/port-forwarder.h"

#include <kj/async.h>
#include <kj/debug.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/signal.h"
#include "common/net/ip.h"

namespace talos::cluster {
namespace {

// Allows for one lost packet, because the node is only one bridge away. A short timeout lets a
// client that waits for a node retry sooner.
constexpr kj::Duration kConnectDeadline = 1500 * kj::MILLISECONDS;

class Forwarder final : private kj::TaskSet::ErrorHandler {
 public:
  Forwarder(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::AutoCloseFd listening,
            kj::String address, Dial dial, unsigned limit)
      : timer(timer),
        receiver(lowLevel.wrapListenSocketFd(kj::mv(listening))),
        address(kj::mv(address)),
        dial(kj::mv(dial)),
        limit(limit),
        connections(*this) {}

  kj::Promise<void> run() {
    for (;;) {
      while (open >= limit) co_await freed.next();
      auto client = co_await receiver->accept();
      ++open;
      connections.add(serve(kj::mv(client)).attach(kj::defer([this]() {
        --open;
        freed.raise();
      })));
    }
  }

 private:
  kj::Timer& timer;
  kj::Own<kj::ConnectionReceiver> receiver;
  kj::String address;
  Dial dial;
  unsigned limit;
  unsigned open = 0;
  Signal freed;
  kj::TaskSet connections;

  static kj::Promise<void> pump(kj::AsyncIoStream& from, kj::AsyncIoStream& to) {
    co_await from.pumpTo(to);
    to.shutdownWrite();
  }

  // Resets instead of closing: a client that is accepted before its target is known must not
  // mistake a refusal for an empty answer.
  static void resetAtClose(kj::AsyncIoStream& client) {
    struct linger now = {1, 0};
    client.setsockopt(SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }

  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> client) {
    auto connecting = timer.timeoutAfter(kConnectDeadline, dial(*client));
    auto target = co_await connecting.catch_([&](kj::Exception&& e) {
      resetAtClose(*client);
      return kj::Promise<kj::Own<kj::AsyncIoStream>>(kj::mv(e));
    });
    for (auto* stream : {client.get(), target.get()}) {
      int on = 1;
      stream->setsockopt(IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    auto both = kj::heapArrayBuilder<kj::Promise<void>>(2);
    both.add(pump(*client, *target));
    both.add(pump(*target, *client));
    co_await kj::joinPromisesFailFast(both.finish());
  }

  void taskFailed(kj::Exception&& e) override {
    if (e.getType() == kj::Exception::Type::DISCONNECTED)
      return;  // a node that is down, or a peer that left
    log::warn("cannot forward a connection", {{"address", address}, {"error", e.getDescription()}});
  }
};

}  // namespace

kj::Promise<void> forward(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                          kj::AutoCloseFd listening, kj::String address, Dial dial,
                          unsigned limit) {
  auto forwarder =
      kj::heap<Forwarder>(lowLevel, timer, kj::mv(listening), kj::mv(address), kj::mv(dial), limit);
  auto promise = forwarder->run();
  return promise.attach(kj::mv(forwarder));
}

kj::Promise<void> forward(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                          kj::AutoCloseFd listening, kj::String targetAddress, uint16_t targetPort,
                          unsigned limit) {
  auto target = Endpoint{Ip::require(targetAddress), targetPort}.socketName();
  auto dial = [&lowLevel, target](kj::AsyncIoStream&) {
    int raw;
    KJ_SYSCALL(raw = socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return lowLevel.wrapConnectingSocketFd(kj::AutoCloseFd(raw), target.get(), target.size(),
                                           kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC |
                                               kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK);
  };
  return forward(lowLevel, timer, kj::mv(listening), kj::mv(targetAddress), kj::mv(dial), limit);
}

namespace {

// Returns the port that the client called, before the redirection.
uint16_t portCalled(kj::AsyncIoStream& client) {
  sockaddr_storage name{};
  kj::uint size = sizeof name;
  client.getsockname(reinterpret_cast<sockaddr*>(&name), &size);
  bool six = name.ss_family == AF_INET6;
  size = sizeof name;
  static_assert(IP6T_SO_ORIGINAL_DST == SO_ORIGINAL_DST);
  client.getsockopt(six ? SOL_IPV6 : SOL_IP, SO_ORIGINAL_DST, &name, &size);
  return KJ_REQUIRE_NONNULL(Endpoint::of(name)).port;
}

kj::Promise<kj::Own<kj::AsyncIoStream>> connectTo(kj::LowLevelAsyncIoProvider& lowLevel,
                                                  const HostNetwork& host, Endpoint endpoint) {
  auto name = endpoint.socketName();
  auto fd = host.tcpSocket(name.family());
  co_return co_await lowLevel.wrapConnectingSocketFd(
      kj::mv(fd), name.get(), name.size(),
      kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC | kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK);
}

kj::Promise<kj::Own<kj::AsyncIoStream>> connectToPort(kj::LowLevelAsyncIoProvider& lowLevel,
                                                      const HostNetwork& host, uint16_t port) {
  // Read again for each connection, because the addresses of a host change.
  for (auto& address : dialOrder(host.addresses())) {
    auto tried =
        co_await connectTo(lowLevel, host, {address, port})
            .then(
                [](kj::Own<kj::AsyncIoStream>&& stream) -> kj::Maybe<kj::Own<kj::AsyncIoStream>> {
                  return kj::mv(stream);
                },
                [](kj::Exception&&) -> kj::Maybe<kj::Own<kj::AsyncIoStream>> { return nullptr; });
    KJ_IF_MAYBE (stream, tried) co_return kj::mv(*stream);
  }
  kj::throwFatalException(
      KJ_EXCEPTION(DISCONNECTED, "nobody on the host listens on this port", port));
}

}  // namespace

kj::Promise<void> forwardToHost(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                kj::AutoCloseFd listening, const HostNetwork& host) {
  auto dial = [&](kj::AsyncIoStream& client) {
    return connectToPort(lowLevel, host, portCalled(client));
  };
  return forward(lowLevel, timer, kj::mv(listening), kj::str("the host's ports"), kj::mv(dial));
}

}  // namespace talos::cluster
