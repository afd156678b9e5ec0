#include "networkd/dns/dns-listener.h"

#include <kj/debug.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::networkd::dns {
namespace {

constexpr int kWaitingConnections = 128;
// Datagrams after which other events of the loop get their turn.
constexpr unsigned kAtOnce = 256;
constexpr auto kTurn = 1 * kj::MILLISECONDS;

void set(int fd, int level, int option, int value) {
  KJ_SYSCALL(setsockopt(fd, level, option, &value, sizeof value));
}

kj::AutoCloseFd open(const Endpoint& address, int type, unsigned hops) {
  auto name = address.socketName();
  int raw;
  KJ_SYSCALL(raw = ::socket(name.family(), type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd fd(raw);
  bool six = name.family() == AF_INET6;
  // A restarted networkd takes the port although connections of the one before it are not closed.
  if (type == SOCK_STREAM) set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (six) {
    set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    set(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1);
    set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, int(hops));
  } else {
    set(fd, IPPROTO_IP, IP_FREEBIND, 1);
    set(fd, IPPROTO_IP, IP_TTL, int(hops));
  }
  KJ_SYSCALL(::bind(fd, name.get(), name.size()), address.toString());
  if (type == SOCK_STREAM) {
    KJ_SYSCALL(::listen(fd, kWaitingConnections));
  }
  return fd;
}

// Returns nullptr if the connection has ended.
kj::Maybe<Ip> peerOf(const kj::AsyncIoStream& stream) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  int fd = KJ_ASSERT_NONNULL(stream.getFd());
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return nullptr;
  KJ_IF_MAYBE (peer, Endpoint::of(name)) return peer->address;
  return nullptr;
}

}  // namespace

Listener::Listener(kj::UnixEventPort& port, kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                   const Endpoint& address, unsigned hops, Resolver& resolver,
                   Resolver::Client client)
    : timer(timer),
      resolver(resolver),
      client(client),
      udp(kj::heap<UdpSocket>(port, open(address, SOCK_DGRAM, hops))),
      // Both have one port, also in a test that lets the kernel choose it.
      tcp(lowLevel.wrapListenSocketFd(open(udp->own(), SOCK_STREAM, hops))),
      tasks(*this) {}

kj::Promise<void> Listener::run() {
  return receive().exclusiveJoin(accept());
}

kj::Promise<void> Listener::receive() {
  for (unsigned count = 0;; ++count) {
    if (count == kAtOnce) {
      count = 0;
      co_await timer.afterDelay(kTurn);
    }
    auto datagram = co_await udp->receive();
    if (queries < kMostQueries) tasks.add(answer(kj::mv(datagram)));
  }
}

kj::Promise<kj::Maybe<kj::Array<kj::byte>>> Listener::answerTo(Bytes message, bool overUdp) {
  auto parsed = parseQuery(message);
  KJ_IF_MAYBE (query, parsed) {
    if (!overUdp) {
      return resolver.answer(kj::mv(*query), client).then([](kj::Array<kj::byte> answer) {
        return kj::Maybe<kj::Array<kj::byte>>(kj::mv(answer));
      });
    }
    Query asked = *query;
    return resolver.answer(kj::mv(*query), client)
        .then([asked = kj::mv(asked)](kj::Array<kj::byte> answer) {
          if (answer.size() > asked.mostUdp) answer = truncatedAnswer(asked, answer);
          return kj::Maybe<kj::Array<kj::byte>>(kj::mv(answer));
        });
  }
  return refusal(message);
}

kj::Promise<void> Listener::answer(Datagram datagram) {
  ++queries;
  KJ_DEFER(--queries);
  auto found = co_await answerTo(datagram.bytes, true);
  KJ_IF_MAYBE (message, found) udp->answer(datagram, *message);
}

kj::Promise<void> Listener::accept() {
  for (;;) {
    auto stream = co_await tcp->accept();
    KJ_IF_MAYBE (peer, peerOf(*stream)) {
      if (mayConnect(*peer)) tasks.add(serve(kj::mv(stream), *peer));
    }
  }
}

bool Listener::mayConnect(const Ip& peer) const {
  if (connections >= kMostConnections) return false;
  auto place = held.find(peer);
  return client == Resolver::Client::kNode || place == held.end() || place->second < kMostOfPod;
}

kj::Promise<void> Listener::serve(kj::Own<kj::AsyncIoStream> stream, Ip peer) {
  ++connections;
  KJ_DEFER(--connections);
  ++held[peer];
  KJ_DEFER(if (--held[peer] == 0) held.erase(peer));
  auto limit = kReadLimit;
  for (;;) {
    auto read = co_await nextQuery(*stream, limit);
    if (read == nullptr) co_return;
    auto& message = KJ_ASSERT_NONNULL(read);
    auto found = co_await answerTo(message, false);
    if (found == nullptr) co_return;
    auto& reply = KJ_ASSERT_NONNULL(found);
    co_await timer.timeoutAfter(kWriteLimit, writeMessage(*stream, reply));
    limit = kIdleLimit;
  }
}

kj::Promise<kj::Maybe<kj::Array<kj::byte>>> Listener::nextQuery(kj::AsyncIoStream& stream,
                                                                kj::Duration limit) {
  auto late =
      timer.afterDelay(limit).then([]() -> kj::Maybe<kj::Array<kj::byte>> { return nullptr; });
  return readMessage(stream).exclusiveJoin(kj::mv(late));
}

// A client that closes its connection early, or takes no answer.
void Listener::taskFailed(kj::Exception&&) {}

}  // namespace talos::networkd::dns
