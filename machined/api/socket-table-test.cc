#include "machined/api/socket-table.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kTcp =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000003 00:00000000 00000000   112        0 "
    "19541 1 0000000000000000 100 0 0 10 0\n"
    "   1: 0200000A:C350 0300000A:1F90 06 00000005:00000000 03:00000A2C 00000000     0        0 "
    "0 3 0000000000000000\n"_kj;

// Catches: bytes of an address in the wrong order, ports in the wrong base, queues mixed up.
TEST(Sockets, LinesOfTheKernel) {
  auto sockets = parseSockets("tcp", kTcp);
  ASSERT_EQ(sockets.size(), 2u);
  EXPECT_EQ(sockets[0].localAddress, "127.0.0.1");
  EXPECT_EQ(sockets[0].localPort, 3306);
  EXPECT_EQ(sockets[0].remoteAddress, "0.0.0.0");
  EXPECT_EQ(sockets[0].state, "LISTEN");
  EXPECT_EQ(sockets[0].receiveQueue, 3u);
  EXPECT_EQ(sockets[0].sendQueue, 0u);
  EXPECT_EQ(sockets[0].uid, 112u);
  EXPECT_EQ(sockets[0].inode, 19541u);
  EXPECT_EQ(sockets[1].localAddress, "10.0.0.2");
  EXPECT_EQ(sockets[1].remoteAddress, "10.0.0.3");
  EXPECT_EQ(sockets[1].remotePort, 8080);
  EXPECT_EQ(sockets[1].state, "TIME_WAIT");
  EXPECT_EQ(sockets[1].sendQueue, 5u);
  auto six = parseSockets("udp6",
                          "0: 000080FE00000000FF005450A1FEFF34:0222 "
                          "00000000000000000000000000000000:0000 07 0:0 0:0 0 0 0 7\n"_kj);
  ASSERT_EQ(six.size(), 1u);
  EXPECT_EQ(six[0].localAddress, "fe80::5054:ff:34ff:fea1");
  EXPECT_EQ(six[0].state, "");
}

// Catches: a line that is read half, and completed by invented values.
TEST(Sockets, LinesThatAreNotUnderstoodAreLeftOut) {
  for (kj::StringPtr line :
       {"0: 0100007F:0CEA"_kj, "0: 0100007:0CEA 00000000:0000 0A 0:0 0 0 0 0 1"_kj,
        "0: 0100007F:10CEA 00000000:0000 0A 0:0 0 0 0 0 1"_kj, ""_kj,
        "0: 0100007G:0CEA 00000000:0000 0A 0:0 0 0 0 0 1"_kj,
        "0: 0100007F:0CEA 00000000:0000 0A 0 0 0 0 0 1"_kj}) {
    EXPECT_EQ(parseSockets("tcp", line).size(), 0u) << line.cStr();
  }
}

void plant(TestTree& tree) {
  tree.directory("net");
  tree.file("net/tcp", kTcp);
  for (auto pid : {"1"_kj, "20"_kj, "7"_kj, "4"_kj}) {
    tree.directory(kj::str(pid, "/fd"));
    tree.file(kj::str(pid, "/comm"), kj::str("name", pid, "\n"));
    tree.link(kj::str(pid, "/fd/3"), "socket:[19541]");
    tree.link(kj::str(pid, "/fd/4"), "pipe:[19541]");
  }
}

// Catches: process 1 or the socket holder, which hold the sockets of all services, named instead of
// the socket's user; sockets that only the kernel still has and that get an owner; a limit that is
// ignored or not reported.
TEST(Sockets, HaveTheirProcess) {
  TestTree tree;
  plant(tree);
  auto found = readSockets(tree.root, 0, 4, 10);
  ASSERT_EQ(found.sockets.size(), 2u);
  EXPECT_EQ(found.sockets[0].pid, 7);
  EXPECT_EQ(found.sockets[0].program, "name7");
  EXPECT_EQ(found.sockets[1].pid, 0);
  EXPECT_EQ(readSockets(tree.root, 0, 0, 10).sockets[0].pid, 4);
  auto one = readSockets(tree.root, 0, 4, 1);
  EXPECT_EQ(one.sockets.size(), 1u);
  EXPECT_EQ(one.leftOut, 1u);
  auto e = kj::runCatchingExceptions([&] { readSockets(tree.root, 4711, 4, 10); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kNotFound);
}

// Catches: a real /proc that is read differently from its model.
TEST(Sockets, OneOfThisProcessIsFound) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&address), size));
  KJ_SYSCALL(listen(fd, 1));
  KJ_SYSCALL(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size));
  bool found = false;
  for (auto& socket : readSockets("/proc", getpid(), getpid(), 100'000).sockets) {
    if (socket.localPort != ntohs(address.sin_port) || socket.state != "LISTEN") continue;
    found = true;
    EXPECT_EQ(socket.localAddress, "127.0.0.1");
    EXPECT_EQ(socket.pid, getpid());
  }
  close(fd);
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace talos::machined
