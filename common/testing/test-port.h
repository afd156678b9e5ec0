// Ports at which the sockets of tests and figures listen.
#pragma once

#include <kj/debug.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace talos {

inline uint16_t portOf(int listening) {
  sockaddr_in name{};
  socklen_t length = sizeof name;
  KJ_SYSCALL(getsockname(listening, reinterpret_cast<sockaddr*>(&name), &length));
  return ntohs(name.sin_port);
}

}  // namespace talos
