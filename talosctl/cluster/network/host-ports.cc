#include "talosctl/cluster/network/host-ports.h"

#include <kj/debug.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6/ip6_tables.h>

#include "common/base/error.h"
#include "common/net/ip.h"
#include "talosctl/cluster/network/port-forwarder.h"

namespace talos::cluster {
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
