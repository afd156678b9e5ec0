#include "talosctl/cluster/network/port-forwarder.h"

#include <kj/async.h>
#include <kj/debug.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include "common/net/ip.h"

namespace talos::cluster {
namespace {

// Allows for one lost packet, because the node is only one bridge away. A short timeout lets a
// client that waits for a node retry sooner.
constexpr kj::Duration kConnectDeadline = 1500 * kj::MILLISECONDS;

}  // namespace

kj::Promise<void> forward(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                          kj::AutoCloseFd listening, kj::String address, DialTarget dial,
                          unsigned limit) {
  return forwardConnections(
      lowLevel, kj::mv(listening), kj::mv(address),
      [&timer, dial = kj::mv(dial)](kj::AsyncIoStream& client) mutable {
        return timer.timeoutAfter(kConnectDeadline, dial(client));
      },
      limit);
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
