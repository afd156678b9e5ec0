// Ports at which the sockets of tests and figures listen.
#pragma once

#include <kj/debug.h>
#include <kj/io.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

namespace talos {

inline uint16_t portOf(int listening) {
  sockaddr_in name{};
  socklen_t length = sizeof name;
  KJ_SYSCALL(getsockname(listening, reinterpret_cast<sockaddr*>(&name), &length));
  return ntohs(name.sin_port);
}

// Returns a port at which no socket of this network listens, at any address. Each call returns
// another port, and the kernel chooses only higher ones: until the test listens at it, no
// connection and no listener at port 0 takes it.
inline uint16_t freePort() {
  constexpr unsigned kFirst = 20000, kCount = 10000;
  // Programs that share a network (common/testing/main.cc) begin at different ports.
  static std::atomic<unsigned> next = unsigned(getpid()) * 97;
  for (unsigned i = 0; i < kCount; ++i) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(uint16_t(kFirst + next++ % kCount));
    bool free = true;
    for (int type : {SOCK_STREAM, SOCK_DGRAM}) {
      int fd;
      KJ_SYSCALL(fd = socket(AF_INET, type | SOCK_CLOEXEC, 0));
      kj::AutoCloseFd owned(fd);
      free = free && bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof any) == 0;
    }
    if (free) return ntohs(any.sin_port);
  }
  KJ_FAIL_REQUIRE("no port is free");
}

}  // namespace talos
