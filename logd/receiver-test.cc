#include "logd/receiver.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <kj/async-unix.h>
#include <kj/debug.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/tls/pki.h"

namespace talos::logd {
namespace {

struct ReceiverTest : public testing::Test {
  ~ReceiverTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  DiskThread disk;
  ReceiverDependencies deps{*io.lowLevelProvider, io.unixEventPort, io.provider->getTimer(), disk};

  // Listens on a port of the loopback address, with the smallest buffer.
  kj::AutoCloseFd listening{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  uint16_t port = [this]() {
    int size = 1;
    KJ_SYSCALL(setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    KJ_SYSCALL(bind(listening, reinterpret_cast<sockaddr*>(&at), length));
    KJ_SYSCALL(listen(listening, 4));
    KJ_SYSCALL(getsockname(listening, reinterpret_cast<sockaddr*>(&at), &length));
    return ntohs(at.sin_port);
  }();

  kj::AutoCloseFd accept() {
    int fd;
    KJ_SYSCALL(fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    return kj::AutoCloseFd(fd);
  }
  kj::Own<ReceiverConnection> connect(Transport transport = Transport::kTcp) {
    ReceiverAddress address;
    address.transport = transport;
    address.host = kj::str("127.0.0.1");
    address.port = port;
    return connectReceiver(deps, address, "").wait(io.waitScope);
  }
};

TEST_F(ReceiverTest, ParsesAddresses) {
  auto address = ReceiverAddress::parse("tls://[fd00::1]:6514");
  EXPECT_EQ(Transport::kTls, address.transport);
  EXPECT_EQ("fd00::1", address.host);
  EXPECT_EQ(6514, address.port);
  EXPECT_EQ(Transport::kUdp, ReceiverAddress::parse("udp://a:1/").transport);
  EXPECT_EQ(Transport::kTcp, ReceiverAddress::parse("tcp://a:1").transport);
  address = ReceiverAddress::parse("https://[fd00::1]:4318/otlp/v1/logs");
  EXPECT_EQ(Transport::kHttps, address.transport);
  EXPECT_EQ("/otlp/v1/logs", address.path);
  EXPECT_EQ("/v1/logs", ReceiverAddress::parse("http://a:1").path);
  EXPECT_EQ("/v1/logs", ReceiverAddress::parse("http://a:1/").path);
  for (auto wrong : {"ftp://a:1", "a:1", ""}) {
    EXPECT_TRUE(kj::runCatchingExceptions([&]() { ReceiverAddress::parse(wrong); }) != nullptr);
  }
}

// Catches: bytes that count as delivered because the local kernel has them; an ended connection
// whose empty queue counts as delivery.
TEST_F(ReceiverTest, OnlyWhatIsAcknowledgedIsDelivered) {
  auto connection = connect();
  auto peer = accept();
  auto text = kj::heapArray<char>(64u << 10);
  memset(text.begin(), 'x', text.size());
  connection->write(text.slice(0, 100)).wait(io.waitScope);
  char buffer[100];
  size_t got = 0;
  while (got < 100) got += static_cast<size_t>(read(peer, buffer, 100 - got));
  while (connection->delivered().orDefault(0) < 100) {
    deps.timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
  }
  // The peer's kernel accepts a few kilobytes; its program reads none.
  connection->write(text).wait(io.waitScope);
  EXPECT_EQ(100u + text.size(), connection->written());
  EXPECT_LT(KJ_ASSERT_NONNULL(connection->delivered()), 100u + text.size());
  auto ended = connection->ended();
  peer = nullptr;  // with unread bytes: the connection is reset
  EXPECT_TRUE(kj::runCatchingExceptions([&]() { ended.wait(io.waitScope); }) != nullptr);
  EXPECT_TRUE(connection->delivered() == nullptr);
}

TEST_F(ReceiverTest, SaysThatTheReceiverHasClosed) {
  auto connection = connect();
  accept();
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { connection->ended().wait(io.waitScope); })) {
    EXPECT_EQ("the receiver closed the connection", messageOf(*e));
  } else {
    ADD_FAILURE() << "it has not ended";
  }
}

}  // namespace
}  // namespace talos::logd
