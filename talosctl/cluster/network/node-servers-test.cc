#include "talosctl/cluster/network/node-servers.h"

#include <gtest/gtest.h>

#include "common/net/ntp.h"

namespace talos::cluster {
namespace {

// Catches: a server that stops after its first query or its first invalid packet, and another time
// than this host's.
TEST(TimeServer, AnswersQueriesAndNothingElse) {
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  auto loopback = Ip::require("127.0.0.1");
  auto socket = UdpSocket::bound(io.unixEventPort, {loopback});
  auto client = UdpSocket::connected(io.unixEventPort, socket->own());
  auto running = serveTime(timer, kj::mv(socket)).eagerlyEvaluate(nullptr);
  for (uint64_t nonce = 1; nonce <= 200; ++nonce) {
    client->send("nonsense"_kj.asBytes());
    auto sent = kj::systemPreciseCalendarClock().now();
    client->send(ntp::makeQuery(nonce));
    auto reply = timer.timeoutAfter(20 * kj::SECONDS, client->receive()).wait(io.waitScope);
    auto verdict = ntp::judge(reply.bytes, nonce, sent, reply.received - sent);
    ASSERT_TRUE(verdict.is<ntp::Sample>()) << nonce;
    auto& sample = verdict.get<ntp::Sample>();
    EXPECT_EQ(sample.stratum, 10);
    // Both use the same clock: the true offset is 0, and must be within the sample's error.
    auto offset = sample.offset < 0 * kj::SECONDS ? sample.offset * -1 : sample.offset;
    EXPECT_LE(offset, sample.error()) << nonce;
  }
}

}  // namespace
}  // namespace talos::cluster
