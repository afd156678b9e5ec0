#include "networkd/dns/upstream-exchange.h"

#include <kj/debug.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/net/udp.h"

namespace talos::networkd::dns {
namespace {

constexpr size_t kLengthSize = 2;

class RealNetwork final : public UpstreamNetwork {
 public:
  RealNetwork(kj::UnixEventPort& port, kj::LowLevelAsyncIoProvider& lowLevel,
              kj::Function<uint16_t()> random)
      : port(port), lowLevel(lowLevel), random(kj::mv(random)) {}

  kj::Promise<kj::Own<UpstreamAnswer>> exchange(Endpoint upstream, QueryKey key,
                                                Transport transport) override {
    return transport == Transport::kUdp ? byUdp(upstream, kj::mv(key))
                                        : byTcp(upstream, kj::mv(key));
  }

 private:
  kj::UnixEventPort& port;
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::Function<uint16_t()> random;

  kj::Promise<kj::Own<UpstreamAnswer>> byUdp(Endpoint upstream, QueryKey key) {
    auto id = random();
    auto socket = UdpSocket::connected(port, upstream);
    auto query = encodeQuery(key, id);
    socket->send(query);
    for (;;) {
      auto datagram = co_await socket->receive();
      auto parsed = parseResponse(datagram.bytes, key, id);
      KJ_IF_MAYBE (response, parsed) {
        co_return kj::refcounted<UpstreamAnswer>(kj::mv(datagram.bytes), kj::mv(*response));
      }
    }
  }

  kj::Promise<kj::Own<UpstreamAnswer>> byTcp(Endpoint upstream, QueryKey key) {
    auto id = random();
    auto at = upstream.socketName();
    int raw;
    KJ_SYSCALL(raw = ::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    kj::AutoCloseFd fd(raw);
    auto stream = co_await lowLevel.wrapConnectingSocketFd(kj::mv(fd), at.get(), at.size());
    auto query = encodeQuery(key, id);
    co_await writeMessage(*stream, query);
    auto read = co_await readMessage(*stream);
    KJ_IF_MAYBE (message, read) {
      auto parsed = parseResponse(*message, key, id);
      KJ_IF_MAYBE (response, parsed) {
        co_return kj::refcounted<UpstreamAnswer>(kj::mv(*message), kj::mv(*response));
      }
    }
    fail(ErrorKind::kUnavailable, kj::str(upstream, " did not answer over TCP"));
  }
};

}  // namespace

kj::Own<UpstreamNetwork> openUpstreamNetwork(kj::UnixEventPort& port,
                                             kj::LowLevelAsyncIoProvider& lowLevel,
                                             kj::Function<uint16_t()> random) {
  return kj::heap<RealNetwork>(port, lowLevel, kj::mv(random));
}

kj::Promise<kj::Maybe<kj::Array<kj::byte>>> readMessage(kj::AsyncInputStream& stream) {
  kj::byte length[kLengthSize];
  auto got = co_await stream.tryRead(length, kLengthSize, kLengthSize);
  if (got < kLengthSize) co_return nullptr;
  auto message = kj::heapArray<kj::byte>(size_t(length[0]) << 8 | length[1]);
  co_await stream.read(message.begin(), message.size());
  co_return kj::mv(message);
}

kj::Promise<void> writeMessage(kj::AsyncOutputStream& stream, Bytes message) {
  KJ_REQUIRE(message.size() <= UINT16_MAX);
  // The message is one piece, because some programs read it with one call.
  auto framed = kj::heapArray<kj::byte>(kLengthSize + message.size());
  framed[0] = kj::byte(message.size() >> 8);
  framed[1] = kj::byte(message.size());
  std::copy(message.begin(), message.end(), framed.begin() + kLengthSize);
  co_await stream.write(framed.begin(), framed.size());
}

}  // namespace talos::networkd::dns
