#include "logd/receiver.h"

#include <kj/debug.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/signal.h"
#include "common/base/within.h"
#include "common/config/config.h"
#include "common/net/dns-resolver.h"
#include "common/net/forwarding-stream.h"
#include "common/net/host-dial.h"
#include "common/net/udp.h"
#include "common/tls/public-authorities.h"
#include "common/wire/rpc-server.h"

namespace talos::logd {
namespace {

constexpr kj::StringPtr kOtlpPath = "/v1/logs"_kj;  // OTLP specification, "OTLP/HTTP Request"
constexpr auto kHandshakeDeadline = 10 * kj::SECONDS, kNameDeadline = 6 * kj::SECONDS;
// A receiver that acknowledges nothing for this time, or does not read, is dialled again.
constexpr auto kReceiverSilence = 60 * kj::SECONDS;

// Counts the bytes that the kernel has accepted: below TLS, whose records are longer than their
// text.
class CountedStream final : public ForwardingStream {
 public:
  explicit CountedStream(kj::Own<kj::AsyncIoStream> inner) : ForwardingStream(kj::mv(inner)) {}

  kj::Promise<void> write(const void* buffer, size_t size) override {
    ++writing;
    return done(ForwardingStream::write(buffer, size), size);
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    size_t size = 0;
    for (auto piece : pieces) size += piece.size();
    ++writing;
    return done(ForwardingStream::write(pieces), size);
  }

  kj::Promise<void> idle() {
    while (writing > 0) co_await finished.next();
  }
  uint64_t count = 0;

 private:
  unsigned writing = 0;
  Signal finished;

  kj::Promise<void> done(kj::Promise<void> write, size_t size) {
    return write.then([this, size]() {
      count += size;
      --writing;
      finished.raise();
    });
  }
};

class StreamConnection final : public ReceiverConnection {
 public:
  StreamConnection(CountedStream& counted, kj::Own<kj::AsyncIoStream> stream)
      : counted(counted), stream(kj::mv(stream)) {}

  // When its write() resolves, TLS has accepted the text and is still writing the record.
  kj::Promise<void> write(kj::ArrayPtr<const char> bytes) override {
    co_await stream->write(bytes.begin(), bytes.size());
    co_await counted.idle();
  }
  uint64_t written() const override { return counted.count; }

  kj::Maybe<uint64_t> delivered() override {
    auto fd = KJ_REQUIRE_NONNULL(counted.getFd());
    int waiting = 0;
    if (ioctl(fd, SIOCOUTQ, &waiting) != 0) return nullptr;
    // Read after the queue, because the queue of a reset connection is meaningless.
    struct tcp_info info = {};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return nullptr;
    if (info.tcpi_state != TCP_ESTABLISHED) return nullptr;
    auto unacknowledged = static_cast<uint64_t>(waiting);
    return unacknowledged > counted.count ? 0 : counted.count - unacknowledged;
  }

  kj::Promise<void> ended() override {
    char ignored[1024];
    for (;;) {
      auto size = co_await stream->tryRead(ignored, 1, sizeof ignored);
      if (size == 0) fail(ErrorKind::kUnavailable, "the receiver closed the connection");
    }
  }

 private:
  CountedStream& counted;  // inside the stream
  kj::Own<kj::AsyncIoStream> stream;
};

class UdpConnection final : public ReceiverConnection {
 public:
  explicit UdpConnection(kj::Own<UdpSocket> socket) : socket(kj::mv(socket)) {}

  kj::Promise<void> write(kj::ArrayPtr<const char> bytes) override {
    return kj::evalNow([&]() -> kj::Promise<void> {
      socket->send(bytes.asBytes());
      count += bytes.size();
      return kj::READY_NOW;
    });
  }
  uint64_t written() const override { return count; }
  kj::Maybe<uint64_t> delivered() override { return count; }
  kj::Promise<void> ended() override {
    for (;;) co_await socket->receive();
  }

 private:
  kj::Own<UdpSocket> socket;
  uint64_t count = 0;
};

struct Dialed {
  CountedStream* counted;  // inside the stream
  kj::Own<kj::AsyncIoStream> stream;
};

kj::Promise<Dialed> dial(ReceiverDependencies deps, const ReceiverAddress& address,
                         kj::StringPtr authorities) {
  auto transport = address.transport;
  auto host = kj::str(address.host), pem = kj::str(authorities);
  DialDependencies dialing{deps.lowLevel, deps.port, deps.timer};
  auto counted = kj::heap<CountedStream>(co_await dialHost(dialing, kj::str(host), address.port));
  tuneTcp(*counted, kReceiverSilence);
  Dialed dialed{counted.get(), kj::mv(counted)};
  if (transport == Transport::kTls || transport == Transport::kHttps) {
    auto verifier = co_await verifierOf(deps.disk, kj::mv(pem));
    dialed.stream = co_await within(
        deps.timer, kHandshakeDeadline, (*verifier)->connect(kj::mv(dialed.stream), host),
        kj::str("TLS handshake: no answer within ", kHandshakeDeadline), ErrorKind::kUnavailable);
  }
  co_return kj::mv(dialed);
}

}  // namespace

ReceiverAddress ReceiverAddress::parse(kj::StringPtr endpoint) {
  constexpr std::pair<kj::StringPtr, Transport> kSchemes[] = {
      {"tcp"_kj, Transport::kTcp},     {"udp"_kj, Transport::kUdp},
      {"tls"_kj, Transport::kTls},     {"http"_kj, Transport::kHttp},
      {"https"_kj, Transport::kHttps}, {"grpc"_kj, Transport::kGrpc}};
  auto parsed = config::parseEndpoint(endpoint);
  if (parsed.problem.size() > 0) fail(ErrorKind::kInvalidArgument, parsed.problem);
  auto scheme = std::find_if(std::begin(kSchemes), std::end(kSchemes),
                             [&](auto& one) { return one.first == parsed.value.scheme; });
  if (scheme == std::end(kSchemes)) {
    fail(ErrorKind::kInvalidArgument, kj::str("\"", parsed.value.scheme,
                                              "\" is not a scheme of receivers; use tcp, udp, "
                                              "tls, http, https or grpc"));
  }
  ReceiverAddress address;
  address.transport = scheme->second;
  address.host = kj::mv(parsed.value.host);
  address.port = parsed.value.port.orDefault(0);
  auto path = endpoint.slice(parsed.value.scheme.size() + 3);
  path = path.slice(path.findFirst('/').orDefault(path.size()));
  address.path = kj::str(path.size() > 1 ? path : kOtlpPath);
  return address;
}

kj::Promise<kj::Own<kj::AsyncIoStream>> dialReceiver(ReceiverDependencies deps,
                                                     const ReceiverAddress& address,
                                                     kj::StringPtr authorities) {
  auto dialed = co_await dial(deps, address, authorities);
  co_return kj::mv(dialed.stream);
}

kj::Promise<kj::Own<ReceiverConnection>> connectReceiver(ReceiverDependencies deps,
                                                         const ReceiverAddress& address,
                                                         kj::StringPtr authorities) {
  if (address.transport == Transport::kUdp) {
    auto host = kj::str(address.host);
    auto port = address.port;
    auto addresses = co_await within(
        deps.timer, kNameDeadline, resolve(deps.port, deps.timer, host),
        kj::str("cannot resolve ", host, ": no name server answers"), ErrorKind::kUnavailable);
    auto socket = UdpSocket::connected(deps.port, Endpoint{Ip::require(addresses[0]), port});
    co_return kj::heap<UdpConnection>(kj::mv(socket));
  }
  auto dialed = co_await dial(deps, address, authorities);
  co_return kj::heap<StreamConnection>(*dialed.counted, kj::mv(dialed.stream));
}

}  // namespace talos::logd
