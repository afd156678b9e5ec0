#include "common/net/tcp-info.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

namespace talos {
namespace {

// Returns false for a descriptor that is not a TCP socket, and on a kernel that reports fewer
// fields than needed.
bool read(int socket, struct tcp_info& info, size_t needed) {
  socklen_t length = sizeof info;
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && length >= needed;
}

}  // namespace

bool peerHasSpoken(int socket) {
  struct tcp_info info = {};
  constexpr size_t kNeeded = offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(__u64);
  return !read(socket, info, kNeeded) || info.tcpi_bytes_received > 0;
}

unsigned waitingConnections(int listening) {
  struct tcp_info info = {};
  constexpr size_t kNeeded = offsetof(struct tcp_info, tcpi_unacked) + sizeof(__u32);
  // For a listening socket this field is the length of its queue.
  return read(listening, info, kNeeded) ? info.tcpi_unacked : 0;
}

}  // namespace talos
