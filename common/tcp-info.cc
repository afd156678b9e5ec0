#include "common/tcp-info.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

namespace talos {

bool peerHasSpoken(int socket) {
  struct tcp_info info = {};
  socklen_t length = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return true;
  constexpr size_t kNeeded = offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(__u64);
  return length < kNeeded || info.tcpi_bytes_received > 0;
}

}  // namespace talos
