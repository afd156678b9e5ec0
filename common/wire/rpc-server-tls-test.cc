// serveTls and connectTls together, over loopback.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <map>

#include "common/memory/zeroize.h"
#include "common/testing/sanitizers.h"
#include "common/testing/secrets-in-memory.h"
#include "common/testing/test-port.h"
#include "common/wire/rpc-server.h"
#include "common/wire/test-connect.h"
#include "rpc/node.capnp.h"

namespace talos {
namespace {

// Returns its caller's identity as the tag. The test decides when a reboot ends.
class AnsweringMachine final : public rpc::Machine::Server {
 public:
  using Reboots = kj::Vector<kj::Own<kj::PromiseFulfiller<void>>>;
  AnsweringMachine(kj::String who, Reboots& reboots) : who(kj::mv(who)), reboots(reboots) {}

 protected:
  kj::Promise<void> version(VersionContext context) override {
    context.getResults().setTag(who);
    return kj::READY_NOW;
  }
  kj::Promise<void> reboot(RebootContext context) override {
    auto paf = kj::newPromiseAndFulfiller<void>();
    reboots.add(kj::mv(paf.fulfiller));
    return kj::mv(paf.promise);
  }

 private:
  kj::String who;
  Reboots& reboots;
};

struct ServerTls : testing::Test {
  ~ServerTls() noexcept override { serving = nullptr; }
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  pki::CertificateAndKey otherAuthority = pki::makeAuthority({.organization = "other"});
  TlsEndpoint server{credentials(authority, "", authority)};
  TlsEndpoint reader{credentials(authority, "os:reader", authority)};
  kj::AutoCloseFd listening = listenTcp("127.0.0.1", 0);
  uint16_t port = portOf(listening);
  kj::Maybe<kj::Promise<void>> serving;
  ServerLimits limits;
  AnsweringMachine::Reboots reboots;
  kj::PromiseFulfillerPair<void> stop = kj::newPromiseAndFulfiller<void>();
  kj::PromiseFulfillerPair<void> turnedOut = kj::newPromiseAndFulfiller<void>();
  kj::ForkedPromise<void> over = turnedOut.promise.fork();
  kj::Maybe<OtherProtocol> other;

  static Credentials credentials(const pki::CertificateAndKey& signer, kj::StringPtr role,
                                 const pki::CertificateAndKey& trusted) {
    pki::LeafOptions options;
    options.commonName = "someone";
    if (role.size() > 0) options.organizations = kj::arr(kj::str(role));
    options.addresses = kj::arr(kj::str("127.0.0.1"));
    auto leaf = pki::issue(signer.certificate, signer.key, kj::mv(options));
    return {kj::str(trusted.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)};
  }
  void serve(kj::Timer& clock) {
    serving =
        serveTls(
            *io.lowLevelProvider, clock, kj::mv(listening), server,
            [this](const Peer& peer) {
              auto who = kj::str(peer.address, ' ', peer.commonName, ' ',
                                 kj::strArray(peer.organizations, ","));
              return SessionParams{.bootstrap = kj::heap<AnsweringMachine>(kj::mv(who), reboots),
                                   .until = over.addBranch()};
            },
            limits, kj::mv(stop.promise), kj::mv(other))
            .eagerlyEvaluate(nullptr);
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  kj::Own<Connection> connect(TlsEndpoint& client, kj::StringPtr expectedName = "127.0.0.1") {
    return wait(connectTls(*io.lowLevelProvider, timer, client, "127.0.0.1", port, expectedName));
  }
  kj::String callAs(TlsEndpoint& client, kj::StringPtr expectedName = "127.0.0.1") {
    auto connection = connect(client, expectedName);
    return wait(connection->bootstrap().castAs<rpc::Machine>().versionRequest().send().then(
        [](auto&& response) { return kj::str(response.getTag()); }));
  }
  // Makes a call and waits until the server has begun it.
  kj::Promise<void> reboot(Connection& connection) {
    auto before = reboots.size();
    auto call = connection.bootstrap().castAs<rpc::Machine>().rebootRequest().send();
    auto promise = call.ignoreResult().eagerlyEvaluate(nullptr);
    while (reboots.size() == before) wait(timer.afterDelay(1 * kj::MILLISECONDS));
    return promise;
  }
  // Three connections: nothing left to answer, and two calls that the server has begun with.
  struct UnderWay {
    kj::Own<Connection> idle, busy, stuck;
    kj::Promise<void> answered, never;
  };
  UnderWay underWay() {
    auto idle = connect(reader), busy = connect(reader), stuck = connect(reader);
    wait(idle->bootstrap().castAs<rpc::Machine>().versionRequest().send().ignoreResult());
    auto answered = reboot(*busy), never = reboot(*stuck);
    return {kj::mv(idle), kj::mv(busy), kj::mv(stuck), kj::mv(answered), kj::mv(never)};
  }
  template <typename F>
  kj::Exception failureOf(F&& f) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { f(); })) {
      return kj::mv(*e);
    }
    return KJ_EXCEPTION(FAILED, "nothing failed");
  }
  // Adds a protocol that echoes what it receives with its caller's identity, until the server
  // stops.
  void alsoServe(kj::StringPtr preface) {
    other = OtherProtocol{
        preface,
        [](kj::Own<kj::AsyncIoStream> stream, capnp::Capability::Client bootstrap,
           kj::Promise<void> stop, kj::Own<Budget::Account>,
           kj::Own<CallObserver>) -> kj::Promise<kj::Maybe<kj::String>> {
          auto echo = [](kj::AsyncIoStream& stream,
                         rpc::Machine::Client machine) -> kj::Promise<void> {
            auto who = co_await machine.versionRequest().send();
            char buffer[64];
            while (auto n = co_await stream.tryRead(buffer, 1, sizeof buffer)) {
              auto said = kj::str(who.getTag(), ": ", kj::heapString(buffer, n), '\n');
              co_await stream.write(said.begin(), said.size());
            }
          };
          co_await echo(*stream, bootstrap.castAs<rpc::Machine>()).exclusiveJoin(kj::mv(stop));
          co_return kj::str("it was enough");
        }};
  }
  kj::Own<kj::AsyncIoStream> rawTls(TlsEndpoint& client) {
    return wait(client.connect(rawConnect(), "127.0.0.1"));
  }
  kj::Own<kj::AsyncIoStream> rawConnect() {
    return wait(wait(io.provider->getNetwork().parseAddress("127.0.0.1", port))->connect());
  }
  size_t readAll(kj::AsyncIoStream& stream) {
    kj::byte buffer[4096];
    size_t total = 0;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                   while (size_t n = wait(stream.tryRead(buffer, 1, sizeof buffer))) total += n;
                 })) {
      EXPECT_EQ(e->getType(), kj::Exception::Type::DISCONNECTED) << kj::str(*e).cStr();
    }
    return total;
  }
};

// Catches: a peer whose certificate differs from the server's view of it.
TEST_F(ServerTls, PeerIsKnown) {
  serve(timer);
  TlsEndpoint client(credentials(authority, "os:reader", authority));
  EXPECT_EQ(callAs(client), "127.0.0.1 someone os:reader"_kj);
}

// Catches: a config that stays in buffers of TLS when its connection has ended, on either side.
TEST_F(ServerTls, NothingIsLeftOfWhatWasSent) {
  if (kSanitized) GTEST_SKIP() << "what was given back is not overwritten then";
  constexpr TestSecret kSent{"what-is-sent-"_kj, "over-tls-2342"_kj};
  serve(timer);
  TlsEndpoint client(credentials(authority, "os:admin", authority));
  {
    auto connection = connect(client);
    auto request = connection->bootstrap().castAs<rpc::Machine>().clientCertificateRequest();
    auto text = kSent.text();
    KJ_DEFER(zeroize(text));
    auto bytes = request.initRequest(40'000);
    for (size_t at = 0; at + text.size() < bytes.size(); at += 4096) {
      memcpy(bytes.begin() + at, text.begin(), text.size());
    }
    EXPECT_LT(8u, kSent.copies()) << "the search finds nothing";
    auto sent = request.send().ignoreResult();
    EXPECT_EQ(kindOf(failureOf([&] { wait(kj::mv(sent)); })), ErrorKind::kUnimplemented);
  }
  serving = nullptr;
  EXPECT_EQ(0u, kSent.copies());
}

// Catches: a stranger that gets in; a refusal that ends the listener; an error that does not say
// where.
TEST_F(ServerTls, StrangersAreRefused) {
  serve(timer);
  TlsEndpoint stranger(credentials(otherAuthority, "os:admin", authority));
  auto e = failureOf([&] { callAs(stranger); });
  EXPECT_EQ(kindOf(e), ErrorKind::kUnauthenticated) << kj::str(e).cStr();
  EXPECT_EQ(messageOf(e), kj::str("127.0.0.1:", port, ": tlsv1 alert unknown ca"));

  TlsEndpoint client(credentials(authority, "os:reader", otherAuthority));
  auto untrusted = failureOf([&] { callAs(client); });
  EXPECT_EQ(kindOf(untrusted), ErrorKind::kUnavailable);
  EXPECT_TRUE(messageOf(untrusted).startsWith(kj::str("127.0.0.1:", port, ": ")))
      << messageOf(untrusted).cStr();

  TlsEndpoint honest(credentials(authority, "os:reader", authority));
  EXPECT_EQ(kindOf(failureOf([&] { callAs(honest, "10.0.0.9"); })), ErrorKind::kUnavailable);
  EXPECT_EQ(callAs(honest), "127.0.0.1 someone os:reader"_kj);
}

// Catches: an answer that is lost because the server exits; an idle client, or an endless call,
// that delays the exit; an exit that clients take for an answer.
TEST_F(ServerTls, RunningCallIsAnsweredBeforeTheServerEnds) {
  kj::TimerImpl clock(kj::origin<kj::TimePoint>());
  serve(clock);
  auto [idle, busy, stuck, answered, never] = underWay();
  testing::internal::CaptureStderr();
  stop.fulfiller->fulfill();
  wait(idle->onDisconnect());
  EXPECT_TRUE(busy->alive() && stuck->alive());
  auto late = rawConnect();  // in the kernel's queue, for the next one
  reboots[0]->fulfill();
  wait(kj::mv(answered));
  wait(busy->onDisconnect());
  EXPECT_TRUE(stuck->alive());
  auto& ended = KJ_ASSERT_NONNULL(serving);
  clock.advanceTo(clock.now() + limits.drainTimeout - 1 * kj::MILLISECONDS);
  EXPECT_FALSE(ended.poll(io.waitScope));
  clock.advanceTo(clock.now() + 1 * kj::MILLISECONDS);
  wait(kj::mv(ended));
  EXPECT_EQ(kindOf(failureOf([&] { wait(kj::mv(never)); })), ErrorKind::kUnavailable);
  EXPECT_EQ(readAll(*late), 0u);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "an end in good order";
}

// Catches: an answer that is lost because its connection was good for a time only, and a call
// without an end that keeps it.
TEST_F(ServerTls, WhatIsUnderWayIsAnsweredBeforeAConnectionsTimeIsOver) {
  kj::TimerImpl clock(kj::origin<kj::TimePoint>());
  serve(clock);
  auto [idle, busy, stuck, answered, never] = underWay();
  turnedOut.fulfiller->fulfill();
  wait(idle->onDisconnect());
  EXPECT_TRUE(busy->alive() && stuck->alive());
  clock.advanceTo(clock.now() + kDrainTime - 1 * kj::MILLISECONDS);
  reboots[0]->fulfill();
  wait(kj::mv(answered));
  wait(busy->onDisconnect());
  EXPECT_TRUE(stuck->alive());
  clock.advanceTo(clock.now() + 1 * kj::MILLISECONDS);
  EXPECT_EQ(kindOf(failureOf([&] { wait(kj::mv(never)); })), ErrorKind::kUnavailable);
}

// Catches: a peer that opens connections, sends nothing, and so locks all others out.
TEST_F(ServerTls, SilentPeersMakeRoom) {
  limits.connections = 3;
  serve(timer);
  auto first = rawConnect(), second = rawConnect(), third = rawConnect();
  TlsEndpoint client(credentials(authority, "os:reader", authority));
  EXPECT_EQ(callAs(client), "127.0.0.1 someone os:reader"_kj);
  EXPECT_EQ(readAll(*first), 0u);  // the oldest had to go
}

// Catches: a handshake without an end. The clock is the test's own.
TEST_F(ServerTls, HandshakeHasADeadline) {
  kj::TimerImpl clock(kj::origin<kj::TimePoint>());
  serve(clock);
  auto silent = rawConnect();
  TlsEndpoint client(credentials(authority, "os:reader", authority));
  callAs(client);  // so the server has seen the silent one, which came first
  clock.advanceTo(clock.now() + 11 * kj::SECONDS);
  EXPECT_EQ(readAll(*silent), 0u);
}

// Catches: plain bytes that do more than end their own connection.
TEST_F(ServerTls, PlainBytesAreRefused) {
  serve(timer);
  auto stream = rawConnect();
  wait(stream->write("GET / HTTP/1.0\r\n\r\n", 18));
  readAll(*stream);
  TlsEndpoint client(credentials(authority, "os:reader", authority));
  EXPECT_EQ(callAs(client), "127.0.0.1 someone os:reader"_kj);
}

// Catches: a protocol that is mistaken for the other; lost first bytes; a client of the other
// protocol that shares another client's capability, or does not learn that the server exits.
TEST_F(ServerTls, ASecondProtocolIsRecognized) {
  alsoServe("ABCD");
  serve(timer);
  EXPECT_EQ(callAs(reader), "127.0.0.1 someone os:reader"_kj);
  ::testing::internal::CaptureStderr();
  auto stream = rawTls(reader);
  wait(stream->write("AB", 2));
  wait(timer.afterDelay(5 * kj::MILLISECONDS));  // in two records, whichever way they come
  wait(stream->write("CDE", 3));
  // Four bytes are looked at; how many are read with them is up to TLS.
  auto expected = "127.0.0.1 someone os:reader: ABCD"_kj;
  auto received = kj::heapString(expected.size());
  wait(stream->read(received.begin(), received.size()));
  EXPECT_EQ(received, expected);
  EXPECT_EQ(callAs(reader), "127.0.0.1 someone os:reader"_kj);
  stop.fulfiller->fulfill();
  readAll(*stream);
  auto lines = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("connection closed"), std::string::npos) << lines;
  EXPECT_NE(lines.find("it was enough"), std::string::npos) << lines;
}

// Catches: a client that completes the handshake, sends nothing, or little at a time, and keeps its
// place; a mere probe that is logged. The clock is the test's own.
TEST_F(ServerTls, TheFirstBytesHaveTheTimeOfAHandshake) {
  alsoServe("ABCD");
  kj::TimerImpl clock(kj::origin<kj::TimePoint>());
  serve(clock);
  ::testing::internal::CaptureStderr();
  auto looking = rawTls(reader);
  looking = nullptr;
  auto silent = rawTls(reader), slow = rawTls(reader);
  wait(slow->write("ABC", 3));
  auto connection = connect(reader);
  wait(connection->bootstrap().castAs<rpc::Machine>().versionRequest().send().ignoreResult());
  clock.advanceTo(clock.now() + 11 * kj::SECONDS);
  EXPECT_EQ(readAll(*silent), 0u);
  EXPECT_EQ(readAll(*slow), 0u);
  wait(connection->bootstrap().castAs<rpc::Machine>().versionRequest().send().ignoreResult());
  auto lines = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
  EXPECT_NE(lines.find("sent nothing within 10s"), std::string::npos) << lines;
  serving = nullptr;  // before its clock
}

// Catches: a client that completes the handshake, sends nothing, and locks out later ones.
TEST_F(ServerTls, SilentConnectionMakesRoomForAnother) {
  alsoServe("ABCD");
  limits.connections = 2;
  serve(timer);
  auto first = rawTls(reader), second = rawTls(reader);
  EXPECT_EQ(callAs(reader), "127.0.0.1 someone os:reader"_kj);
  EXPECT_EQ(readAll(*first), 0u);
}

// Catches: a line in the log for each health check, which only opens and closes a connection.
TEST_F(ServerTls, LookingAtThePortIsNotLogged) {
  serve(timer);
  testing::internal::CaptureStderr();
  auto stream = rawConnect();
  stream->shutdownWrite();
  readAll(*stream);
  stream = nullptr;
  TlsEndpoint client(credentials(authority, "os:reader", authority));
  EXPECT_EQ(callAs(client), "127.0.0.1 someone os:reader"_kj);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Catches: an error without address, port and cause, and a name given to a resolver.
TEST_F(ServerTls, DialErrorsSayWhere) {
  listening = kj::AutoCloseFd();  // the socket does not listen any more
  TlsEndpoint client(credentials(authority, "os:reader", authority));
  auto e = failureOf([&] { callAs(client); });
  EXPECT_EQ(kindOf(e), ErrorKind::kUnavailable);
  EXPECT_EQ(messageOf(e), kj::str("127.0.0.1:", port, ": Connection refused"));
  auto named = failureOf(
      [&] { wait(connectTls(*io.lowLevelProvider, timer, client, "node1", 50000, "node1")); });
  EXPECT_EQ(kindOf(named), ErrorKind::kInvalidArgument);
}

// Catches: a machine that loses its power while a caller waits for its answer, and is noticed only
// when the caller's deadline passes.
TEST_F(ServerTls, AVanishedPeerIsNoticedInSeconds) {
  std::map<int, int> options;
  Secure look = [&](kj::Own<kj::AsyncIoStream> stream) {
    for (int option : {TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT}) {
      kj::uint size = sizeof(int);
      stream->getsockopt(IPPROTO_TCP, option, &options[option], &size);
    }
    int on = 0;
    kj::uint size = sizeof(int);
    stream->getsockopt(SOL_SOCKET, SO_KEEPALIVE, &on, &size);
    EXPECT_EQ(on, 1);
    return kj::Promise<kj::Own<kj::AsyncIoStream>>(kj::mv(stream));
  };
  wait(connectTcp(*io.lowLevelProvider, timer, "127.0.0.1", port, kj::mv(look)));
  auto silence = options[TCP_KEEPIDLE] + options[TCP_KEEPINTVL] * options[TCP_KEEPCNT];
  EXPECT_EQ(silence * kj::SECONDS, kDialSilence);
  EXPECT_EQ(options[TCP_USER_TIMEOUT] * kj::MILLISECONDS, kDialSilence);
  EXPECT_LE(options[TCP_KEEPIDLE], 10);
}

// Catches: a peer that never answers and holds its caller for ever. The clock is the test's own.
TEST_F(ServerTls, DialHasADeadline) {
  kj::TimerImpl clock(kj::origin<kj::TimePoint>());
  TlsEndpoint client(credentials(authority, "os:reader", authority));
  auto dialling = connectTls(*io.lowLevelProvider, clock, client, "127.0.0.1", port, "127.0.0.1",
                             3 * kj::SECONDS);  // accepted, but the handshake hangs
  EXPECT_FALSE(dialling.poll(io.waitScope));
  clock.advanceTo(clock.now() + 4 * kj::SECONDS);
  auto e = failureOf([&] { dialling.wait(io.waitScope); });
  EXPECT_EQ(messageOf(e), kj::str("127.0.0.1:", port, ": no answer within 3s"));
}

}  // namespace
}  // namespace talos
