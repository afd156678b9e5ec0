#include "common/testing/test-port.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <fstream>

#include "common/testing/provided.h"

namespace talos {
namespace {

// Catches: a program of tests that shares the ports of its network with other programs.
TEST(NetworkOfTests, HasOnlyALoopbackLink) {
  TALOS_NEEDS(geteuid() == 0, "root", "a network namespace needs root");
  auto* all = if_nameindex();
  ASSERT_NE(all, nullptr);
  std::string names;
  for (auto* one = all; one->if_index != 0; ++one) names += one->if_name + std::string(" ");
  if_freenameindex(all);
  EXPECT_EQ("lo ", names);
}

// Catches: a port that has a listener at another address than that of the test.
TEST(FreePort, IsFreeAtEveryAddress) {
  int fd;
  KJ_SYSCALL(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  kj::AutoCloseFd owned(fd);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(freePort() + 1);
  inet_pton(AF_INET, "127.0.0.2", &name.sin_addr);
  KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name));
  EXPECT_NE(portOf(fd), freePort());
}

// Catches: a port that the next connection could have as its local port.
TEST(FreePort, IsNoneThatTheKernelChooses) {
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  unsigned first = 0;
  range >> first;
  EXPECT_LT(freePort(), first);
}

}  // namespace
}  // namespace talos
