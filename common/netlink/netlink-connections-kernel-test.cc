// Ends connections at the real kernel, in a network namespace that each test makes for itself
// (root). Its kernel has INET_DIAG_DESTROY.
#include "common/netlink/netlink-connections.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/netlink/model/test-kernel.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"
#include "common/testing/test-namespace.h"

namespace talos::netlink {
namespace {

constexpr uint16_t kPort = 6443;

kj::AutoCloseFd openTcp(int family) {
  int fd;
  KJ_SYSCALL(fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  timeval timeout{5, 0};
  KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)));
  return kj::AutoCloseFd(fd);
}

// Both ends of a connection.
struct Pair {
  kj::AutoCloseFd client, server;
  Pair(int listener, kj::StringPtr from, kj::StringPtr to)
      : client(openTcp(Ip::require(to).family())) {
    Endpoint local{Ip::require(from), 0}, remote{Ip::require(to), kPort};
    auto localName = local.socketName(), remoteName = remote.socketName();
    KJ_SYSCALL(::bind(client, localName.get(), localName.size()));
    KJ_SYSCALL(::connect(client, remoteName.get(), remoteName.size()));
    int fd;
    KJ_SYSCALL(fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    server = kj::AutoCloseFd(fd);
  }
  // Returns the errno of a read at an end to which nothing was written: 0 while it is connected.
  static int errorOf(int fd) {
    char byte;
    ssize_t got = ::recv(fd, &byte, 1, MSG_DONTWAIT);
    return got < 0 && errno != EAGAIN ? errno : 0;
  }
  std::pair<int, int> errors() const { return {errorOf(client), errorOf(server)}; }
  // Returns true if both ends have ended; one may have been notified by the other.
  bool over() const { return errorOf(client) != 0 && errorOf(server) != 0; }
};

kj::AutoCloseFd listenEverywhere(int family) {
  auto fd = openTcp(family);
  auto any = Endpoint{Ip::any(family), kPort}.socketName();
  KJ_SYSCALL(::bind(fd, any.get(), any.size()));
  KJ_SYSCALL(::listen(fd, 8));
  return fd;
}

// Has the kernel drop all packets that arrive for a connection.
void dropArrivals(int fd) {
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  sock_fprog program{1, &drop};
  KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)));
}

const std::pair<int, int> kConnected{0, 0}, kAborted{ECONNABORTED, ECONNABORTED};

// Catches: connections that still wait for an address that was removed, above all those of a server
// for both families; connections of others, or a listener, that are ended as well.
TEST(ConnectionsKernel, OnlyThoseOfAnAddressToItselfEnd) {
  inNamespace([] {
    auto kernel = openKernel();
    auto lo = indexOf(*kernel, "lo");
    setUp(*kernel, lo);
    for (auto each : {"10.5.0.2/24", "10.5.0.50/32"}) addAddress(*kernel, lo, prefix(each));
    auto listener = listenEverywhere(AF_INET6);
    Pair own(listener, "10.5.0.50", "10.5.0.50"), to(listener, "10.5.0.2", "10.5.0.50"),
        from(listener, "10.5.0.50", "10.5.0.2"), other(listener, "127.0.0.1", "127.0.0.1"),
        six(listener, "::1", "::1");

    EXPECT_GE(endConnectionsToItself(Ip::require("10.5.0.50")), 1u);
    EXPECT_TRUE(own.over());
    for (auto pair : {&to, &from, &other, &six}) EXPECT_EQ(pair->errors(), kConnected);
    EXPECT_GE(endConnectionsToItself(Ip::require("::1")), 1u);
    EXPECT_TRUE(six.over());
    EXPECT_EQ(other.errors(), kConnected);
    EXPECT_EQ(endConnectionsToItself(Ip::require("10.5.0.50")), 0u);
    Pair again(listener, "10.5.0.50", "10.5.0.50");
    EXPECT_EQ(again.errors(), kConnected);
  });
}

// Catches: connections that can be ended only while the address exists.
TEST(ConnectionsKernel, TheyEndAfterTheAddress) {
  inNamespace([] {
    auto kernel = openKernel();
    auto lo = indexOf(*kernel, "lo");
    setUp(*kernel, lo);
    addAddress(*kernel, lo, prefix("10.5.0.50/32"));
    auto listener = listenEverywhere(AF_INET);
    Pair own(listener, "10.5.0.50", "10.5.0.50");
    for (auto& each : kernel->addresses()) {
      if (each.prefix == prefix("10.5.0.50/32")) change(*kernel, DeleteAddress{each});
    }
    EXPECT_EQ(own.errors(), kConnected);
    EXPECT_EQ(endConnectionsToItself(Ip::require("10.5.0.50")), 2u);
    EXPECT_EQ(own.errors(), kAborted);
  });
}

// Catches: a connection that waits for its next retransmission although its peer cannot be reached;
// one of another port, one that is idle and one that works, which are ended as well.
TEST(ConnectionsKernel, StalledOnesOfAPortEnd) {
  inNamespace([] {
    auto kernel = openKernel();
    setUp(*kernel, indexOf(*kernel, "lo"));
    auto listener = listenEverywhere(AF_INET);
    Pair stalled(listener, "127.0.0.1", "127.0.0.1"), idle(listener, "127.0.0.1", "127.0.0.1"),
        other(listener, "127.0.0.1", "127.0.0.1");
    for (int fd : {stalled.server.get(), idle.server.get()}) dropArrivals(fd);
    for (int fd : {stalled.client.get(), other.client.get()}) KJ_SYSCALL(::write(fd, "x", 1));

    EXPECT_EQ(endStalledConnections(kPort + 1), 0u);
    size_t ended = 0;
    for (unsigned looks = 0; ended == 0 && looks < 2000; ++looks) {
      usleep(10'000);
      ended = endStalledConnections(kPort);
    }
    EXPECT_EQ(ended, 1u);
    EXPECT_EQ(Pair::errorOf(stalled.client), ECONNABORTED);
    EXPECT_EQ(idle.errors(), kConnected);
    EXPECT_EQ(endStalledConnections(kPort), 0u);
    char byte;
    EXPECT_EQ(::recv(other.server, &byte, 1, 0), 1);
  });
}

// Catches: a connection that is not listed, one of another port or of the client's end that is, and
// two sockets with the same number; another connection that is ended than the one that is meant.
TEST(ConnectionsKernel, ThoseToAPortAreListedAndEnded) {
  inNamespace([] {
    auto kernel = openKernel();
    setUp(*kernel, indexOf(*kernel, "lo"));
    auto listener = listenEverywhere(AF_INET6);
    EXPECT_EQ(connectionsTo(kPort).size(), 0u);
    Pair four(listener, "127.0.0.1", "127.0.0.1"), six(listener, "::1", "::1");
    four.client = nullptr;  // its end is half closed
    auto found = connectionsTo(kPort);
    ASSERT_EQ(found.size(), 2u);
    bool isSame = found[0].id.idiag_cookie[0] == found[1].id.idiag_cookie[0] &&
                  found[0].id.idiag_cookie[1] == found[1].id.idiag_cookie[1];
    EXPECT_FALSE(isSame);
    for (auto& one : found) EXPECT_TRUE(one.remote.isLoopback());
    EXPECT_EQ(connectionsTo(kPort + 1).size(), 0u);
    EXPECT_EQ(endConnections(found.slice(1, 2)), 1u);
    EXPECT_EQ(connectionsTo(kPort).size(), 1u);
    EXPECT_EQ(endConnections(found.slice(1, 2)), 0u);
    EXPECT_EQ(endConnections(nullptr), 0u);
  });
}

// Catches: a list that is read although its messages are cut short, or of another family.
TEST(ConnectionsKernel, ForeignBytesAreNoConnections) {
  auto dump = encodeConnectionDump(AF_INET);
  auto decoded = decode(dump, Format::kSockets);  // a request has less than an answer
  EXPECT_EQ(decoded.messages.size(), 0u);
  EXPECT_TRUE(decoded.problem != nullptr);
}

}  // namespace
}  // namespace talos::netlink
