// Ports at which the sockets of tests and figures listen.
#pragma once

#include <kj/debug.h>
#include <kj/string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace talos {

inline uint16_t portOf(int listening) {
  sockaddr_in name{};
  socklen_t length = sizeof name;
  KJ_SYSCALL(getsockname(listening, reinterpret_cast<sockaddr*>(&name), &length));
  return ntohs(name.sin_port);
}

// Returns an address of 127.0.0.0/8 that other running tests do not use, so that a port which is
// free for UDP is free for TCP, too. `number`: 0 or 1.
inline kj::String loopbackOfTest(unsigned number = 0) {
  auto id = unsigned(getpid());
  return kj::str("127.", 100 + 70 * number + id / 62500 % 70, ".", id / 250 % 250 + 1, ".",
                 id % 250 + 1);
}

}  // namespace talos
