// The listener and the exchange with upstreams over real sockets of loopback.
#include "networkd/dns/dns-listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/testing/test-port.h"
#include "networkd/dns/test-dns-messages.h"

namespace talos::networkd::dns {
namespace {

// A server of names, over UDP and TCP.
class ModelUpstream {
 public:
  // Returns the answer to a query; nullptr for none.
  using Answer = kj::Function<kj::Maybe<kj::Array<kj::byte>>(Bytes query, bool overTcp)>;

  ModelUpstream(kj::AsyncIoContext& io, Answer answer)
      : answer(kj::mv(answer)),
        udp(UdpSocket::bound(io.unixEventPort, {ip("127.0.0.1"), freePort()})),
        tcp(io.lowLevelProvider->wrapListenSocketFd(listening(udp->own()))),
        running(serveUdp().exclusiveJoin(serveTcp()).eagerlyEvaluate(nullptr)) {}

  Endpoint own() const { return udp->own(); }
  kj::Vector<kj::Array<kj::byte>> queries;
  kj::Vector<uint16_t> ports;  // of the senders over UDP
  // Returns a message that is sent before the answer over UDP.
  kj::Function<kj::Maybe<kj::Array<kj::byte>>(Bytes query)> forge =
      [](Bytes) -> kj::Maybe<kj::Array<kj::byte>> { return nullptr; };

 private:
  Answer answer;
  kj::Own<UdpSocket> udp;
  kj::Own<kj::ConnectionReceiver> tcp;
  kj::Promise<void> running;

  static kj::AutoCloseFd listening(const Endpoint& address) {
    auto name = address.socketName();
    int raw;
    KJ_SYSCALL(raw = ::socket(name.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    kj::AutoCloseFd fd(raw);
    int on = 1;
    KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    KJ_SYSCALL(::bind(fd, name.get(), name.size()));
    KJ_SYSCALL(::listen(fd, 16));
    return fd;
  }
  kj::Promise<void> serveUdp() {
    for (;;) {
      auto query = co_await udp->receive();
      queries.add(kj::heapArray<kj::byte>(query.bytes.asPtr()));
      ports.add(KJ_ASSERT_NONNULL(Endpoint::of(query.from)).port);
      KJ_IF_MAYBE (forged, forge(query.bytes)) udp->answer(query, *forged);
      auto found = answer(query.bytes, false);
      KJ_IF_MAYBE (message, found) udp->answer(query, *message);
    }
  }
  kj::Promise<void> serveTcp() {
    for (;;) {
      auto stream = co_await tcp->accept();
      auto read = co_await readMessage(*stream);
      auto& query = KJ_ASSERT_NONNULL(read);
      auto found = answer(query, true);
      KJ_IF_MAYBE (message, found) co_await writeMessage(*stream, *message);
    }
  }
};

struct DnsListener : testing::Test {
  ~DnsListener() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  uint16_t lastId = 100;
  kj::Own<UpstreamNetwork> network =
      openUpstreamNetwork(io.unixEventPort, *io.lowLevelProvider, [this] { return ++lastId; });
  Resolver resolver{timer, *network};
  Listener listener{
      io.unixEventPort, *io.lowLevelProvider,   timer, {ip("127.0.0.1"), freePort()}, 1,
      resolver,         Resolver::Client::kNode};
  kj::Promise<void> running = listener.run().eagerlyEvaluate(nullptr);

  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  void upstream(const ModelUpstream& model) {
    ResolverSettings settings;
    settings.upstreams.push_back(model.own());
    resolver.configure(kj::mv(settings));
  }
  kj::Array<kj::byte> overUdp(Bytes message) {
    auto client = UdpSocket::connected(io.unixEventPort, listener.own());
    client->send(message);
    return wait(client->receive()).bytes;
  }
  kj::Own<kj::AsyncIoStream> connect() {
    auto name = listener.own().socketName();
    return wait(io.provider->getNetwork().getSockaddr(name.get(), name.size())->connect());
  }
};

kj::Array<kj::byte> oneAddress(Bytes query) {
  return TestResponse{.answers = {addressRecord("203.0.113.9")}}.encode(query);
}
// Returns an answer of some 3000 bytes.
kj::Array<kj::byte> largeAnswer(Bytes query) {
  TestResponse response;
  for (unsigned i = 0; i < 200; ++i) response.answers.push_back(addressRecord("203.0.113.9"));
  return response.encode(query);
}
kj::Array<kj::byte> truncated(Bytes query) {
  return TestResponse{.flags = 0x8380}.encode(query);
}

// Catches: a query that does not reach the upstream, or an answer that does not reach its client;
// ports and numbers that a forger can foresee from the query before (RFC 5452).
TEST_F(DnsListener, ForwardsOverUdp) {
  ModelUpstream model(io, [](Bytes query, bool) { return oneAddress(query); });
  upstream(model);
  auto answer = overUdp(TestQuery{.id = 77, .udp = 1232}.encode());
  EXPECT_EQ(77, answer[1]);
  EXPECT_EQ(1u, countOfAnswers(answer));
  overUdp(TestQuery{.name = "b.test"}.encode());
  overUdp(TestQuery{.name = "c.test"}.encode());
  ASSERT_EQ(3u, model.queries.size());
  auto first = KJ_ASSERT_NONNULL(parseQuery(model.queries[0]));
  EXPECT_EQ(101, first.id);
  EXPECT_TRUE(first.key.edns);
  EXPECT_EQ(102, KJ_ASSERT_NONNULL(parseQuery(model.queries[1])).id);
  EXPECT_TRUE(model.ports[0] != model.ports[1] || model.ports[1] != model.ports[2]);
  EXPECT_EQ(1u, countOfAnswers(overUdp(TestQuery{.udp = 1232}.encode())));
  EXPECT_EQ(3u, model.queries.size()) << "from the cache";
}

// Catches: the first datagram that counts although it is no answer to the query.
TEST_F(DnsListener, AForgedAnswerIsDropped) {
  ModelUpstream model(io, [](Bytes query, bool) { return TestResponse{kNameError}.encode(query); });
  upstream(model);
  model.forge = [&](Bytes query) -> kj::Maybe<kj::Array<kj::byte>> {
    auto stranger = UdpSocket::connected(io.unixEventPort, {ip("127.0.0.1"), model.ports.back()});
    stranger->send(oneAddress(query));  // from another port
    auto forged = oneAddress(query);
    ++forged[1];  // another number
    return kj::mv(forged);
  };
  EXPECT_EQ(kNameError, rcodeOf(overUdp(TestQuery{}.encode())));
  EXPECT_EQ(1u, model.queries.size());
}

// Catches: an answer that is cut in the middle of a record; a client that cannot get it over TCP; a
// size of EDNS that is not kept.
TEST_F(DnsListener, LargeAnswersGoOverTcp) {
  ModelUpstream model(io, [](Bytes query, bool overTcp) {
    return overTcp ? largeAnswer(query) : truncated(query);
  });
  upstream(model);
  auto small = overUdp(TestQuery{.udp = 1232}.encode());
  EXPECT_NE(0, small[2] & 0x02) << "truncated";
  EXPECT_EQ(0u, countOfAnswers(small));
  EXPECT_EQ(200u, countOfAnswers(overUdp(TestQuery{.udp = 4096}.encode())));
  auto stream = connect();
  for (unsigned i = 0; i < 2; ++i) {
    wait(writeMessage(*stream, TestQuery{}.encode()));
    auto answer = wait(readMessage(*stream));
    EXPECT_EQ(200u, countOfAnswers(KJ_ASSERT_NONNULL(answer))) << i;
  }
}

// Catches: a message that stops the listener; an answer to an answer.
TEST_F(DnsListener, OtherMessagesDoNoHarm) {
  ModelUpstream model(io, [](Bytes query, bool) { return oneAddress(query); });
  upstream(model);
  auto client = UdpSocket::connected(io.unixEventPort, listener.own());
  client->send(""_kj.asBytes());
  client->send("abc"_kj.asBytes());
  client->send(oneAddress(TestQuery{}.encode()));
  auto update = TestQuery{.flags = 0x2900}.encode();
  client->send(update);
  EXPECT_EQ(kNotImplemented, rcodeOf(wait(client->receive()).bytes));
  auto stream = connect();
  wait(writeMessage(*stream, "abc"_kj.asBytes()));
  EXPECT_TRUE(wait(readMessage(*stream)) == nullptr) << "it is closed";
  EXPECT_EQ(1u, countOfAnswers(overUdp(TestQuery{}.encode())));
}

// Catches: clients that keep others from TCP by connections without a query.
TEST_F(DnsListener, ConnectionsAreBounded) {
  ModelUpstream model(io, [](Bytes query, bool) { return oneAddress(query); });
  upstream(model);
  kj::Vector<kj::Own<kj::AsyncIoStream>> held;
  auto answers = [&](kj::AsyncIoStream& stream) {
    wait(writeMessage(stream, TestQuery{}.encode()));
    return wait(readMessage(stream)) != nullptr;
  };
  for (unsigned i = 0; i < Listener::kMostConnections; ++i) {
    held.add(connect());
    EXPECT_TRUE(answers(*held.back())) << i;
  }
  auto more = connect();
  char byte;
  EXPECT_EQ(0u, wait(more->tryRead(&byte, 1, 1))) << "closed at once";
  EXPECT_EQ(1u, countOfAnswers(overUdp(TestQuery{}.encode()))) << "UDP has another bound";
}

// Catches: a pod that keeps others from TCP by the connections that it holds.
TEST_F(DnsListener, APodHasAPartOfTheConnections) {
  ModelUpstream model(io, [](Bytes query, bool) { return oneAddress(query); });
  upstream(model);
  Listener ofPods{io.unixEventPort, *io.lowLevelProvider,  timer, {ip("127.0.0.1"), freePort()}, 2,
                  resolver,         Resolver::Client::kPod};
  auto runningOfPods = ofPods.run().eagerlyEvaluate(nullptr);
  auto server = ofPods.own().socketName();
  auto connectFrom = [&](kj::StringPtr pod) {
    auto own = Endpoint{ip(pod)}.socketName();
    int raw;
    KJ_SYSCALL(raw = ::socket(own.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    kj::AutoCloseFd fd(raw);
    KJ_SYSCALL(::bind(fd, own.get(), own.size()));
    return wait(
        io.lowLevelProvider->wrapConnectingSocketFd(kj::mv(fd), server.get(), server.size()));
  };
  auto answers = [&](kj::AsyncIoStream& stream) {
    wait(writeMessage(stream, TestQuery{}.encode()));
    return wait(readMessage(stream)) != nullptr;
  };
  kj::Vector<kj::Own<kj::AsyncIoStream>> held;
  for (unsigned i = 0; i < Listener::kMostOfPod; ++i) {
    held.add(connectFrom("127.0.0.2"));
    EXPECT_TRUE(answers(*held.back())) << i;
  }
  auto more = connectFrom("127.0.0.2");
  char byte;
  EXPECT_EQ(0u, wait(more->tryRead(&byte, 1, 1))) << "closed at once";
  auto other = connectFrom("127.0.0.3");
  EXPECT_TRUE(answers(*other));
}

// Catches: answers that leave the node, because their IP lifetime is that of other packets.
TEST_F(DnsListener, AnswersHaveAShortLifetime) {
  int fd;
  KJ_SYSCALL(fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  kj::AutoCloseFd client(fd);
  int on = 1;
  KJ_SYSCALL(setsockopt(client, IPPROTO_IP, IP_RECVTTL, &on, sizeof on));
  auto name = listener.own().socketName();
  KJ_SYSCALL(::connect(client, name.get(), name.size()));
  auto query = TestQuery{.type = kAxfr}.encode();  // this node answers it itself
  KJ_SYSCALL(::send(client, query.begin(), query.size(), 0));
  kj::UnixEventPort::FdObserver observer(io.unixEventPort, client,
                                         kj::UnixEventPort::FdObserver::OBSERVE_READ);
  wait(observer.whenBecomesReadable());
  kj::byte bytes[512];
  alignas(cmsghdr) char control[64];
  iovec part{bytes, sizeof bytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  KJ_SYSCALL(recvmsg(client, &header, 0));
  int lifetime = -1;
  for (auto* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) {
      memcpy(&lifetime, CMSG_DATA(c), sizeof lifetime);
    }
  }
  EXPECT_EQ(1, lifetime);
}

// Catches: a port of another program that is taken over, or an error that does not name it.
TEST_F(DnsListener, ATakenPortIsAnError) {
  EXPECT_ANY_THROW(Listener(io.unixEventPort, *io.lowLevelProvider, timer, listener.own(), 1,
                            resolver, Resolver::Client::kNode));
}

}  // namespace
}  // namespace talos::networkd::dns
