#include "common/net/udp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include "common/base/error.h"

namespace talos {
namespace {

struct Udp : testing::Test {
  ~Udp() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  Ip loopback = Ip::require("127.0.0.1");

  // Waits for a promise. If it never resolves, the test fails by its deadline instead of hanging.
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return io.provider->getTimer()
        .timeoutAfter(20 * kj::SECONDS, kj::mv(promise))
        .wait(io.waitScope);
  }
  kj::Own<UdpSocket> open() { return UdpSocket::bound(io.unixEventPort, {loopback}); }
  kj::Own<UdpSocket> to(uint16_t port) {
    return UdpSocket::connected(io.unixEventPort, {loopback, port});
  }
};

// Catches: an answer to the wrong peer, a stamp that was never set, a wake-up that is lost when
// several datagrams come at once.
TEST_F(Udp, QuestionsAndAnswers) {
  auto server = open();
  auto client = to(server->own().port);
  auto before = kj::systemPreciseCalendarClock().now();
  client->send("one"_kj.asBytes());
  client->send("two"_kj.asBytes());
  client->send(""_kj.asBytes());
  for (auto expected : {"one"_kj, "two"_kj, ""_kj}) {
    auto got = wait(server->receive());
    EXPECT_EQ(got.bytes.asPtr(), expected.asBytes());
    EXPECT_GE(got.received, before);
    EXPECT_LE(got.received, kj::systemPreciseCalendarClock().now());
    server->answer(got, kj::str("re: ", expected).asBytes());
    EXPECT_EQ(wait(client->receive()).bytes.asPtr(), kj::str("re: ", expected).asBytes());
  }
}

// Catches: a wait that misses datagrams that arrive while it waits, or all after the first.
TEST_F(Udp, WaitsForWhatIsNotThereYet) {
  auto server = open();
  auto client = to(server->own().port);
  for (auto text : {"one"_kj, "two"_kj}) {
    auto pending = server->receive();
    EXPECT_FALSE(pending.poll(io.waitScope));
    client->send(text.asBytes());
    client->send("at once"_kj.asBytes());
    EXPECT_EQ(wait(kj::mv(pending)).bytes.asPtr(), text.asBytes());
    EXPECT_EQ(wait(server->receive()).bytes.asPtr(), "at once"_kj.asBytes());
  }
}

// A datagram longer than any of ours is cut; nothing is overrun.
TEST_F(Udp, LongDatagramsAreCut) {
  auto server = open();
  auto client = to(server->own().port);
  client->send(kj::heapArray<kj::byte>(4097));
  EXPECT_EQ(wait(server->receive()).bytes.size(), 4096u);
}

// Catches: a client that takes a stranger's datagram for the server's.
TEST_F(Udp, AConnectedSocketHearsItsPeerOnly) {
  auto server = open(), stranger = open();
  auto client = to(server->own().port);
  auto strange = to(client->own().port);
  strange->send("forged"_kj.asBytes());
  client->send("x"_kj.asBytes());
  auto query = wait(server->receive());
  server->answer(query, "true"_kj.asBytes());
  EXPECT_EQ(wait(client->receive()).bytes.asPtr(), "true"_kj.asBytes());
}

// Catches: a wait until the deadline although the server's host refused at once.
TEST_F(Udp, RefusedPacketFailsAtOnce) {
  uint16_t port = open()->own().port;
  auto client = to(port);
  client->send("x"_kj.asBytes());
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { wait(client->receive()); })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kUnavailable);
    EXPECT_THAT(messageOf(*e).cStr(), testing::HasSubstr("refused"));
  } else {
    ADD_FAILURE() << "received from nobody";
  }
}

}  // namespace
}  // namespace talos
