// A netlink socket that asks and waits: requests with acknowledgements, and dumps. Any netlink
// protocol.
//
// Only datagrams of the kernel itself are believed. An answer that does not come within the
// deadline fails with kUnavailable naming what was asked; the socket is then replaced, so that a
// late answer cannot be taken for that of another request.
#pragma once

#include "common/netlink/netlink-codec.h"

namespace talos::netlink {

class Socket {
 public:
  // protocol: NETLINK_ROUTE ...
  Socket(int protocol, kj::Duration deadline);
  ~Socket() noexcept(false);
  KJ_DISALLOW_COPY(Socket);

  // Sends the requests in few writes and collects how each ended. Only the last of a write is
  // acknowledged: the kernel does them in order and says at once what it refuses. A request whose
  // answer was lost has code ENOBUFS.
  kj::Vector<Ack> transact(kj::ArrayPtr<kj::Array<kj::byte>> requests);

  // Everything that the request lists, or the answer to a request with NLM_F_ACK. Starts again when
  // the kernel says that the list changed meanwhile. kFailedPrecondition with the kernel's error.
  kj::Vector<Message> dump(kj::Array<kj::byte> request, kj::StringPtr what);
  // The same, each message as it comes; `again`: what came before does not count any more.
  void dump(kj::Array<kj::byte> request, kj::StringPtr what, kj::FunctionParam<void()> again,
            kj::FunctionParam<void(Message&&)> each);
  // Zeroes what was received, after a secret.
  void wipe();

 private:
  int protocol;
  kj::Duration deadline;
  uint32_t sequence = 0;
  kj::AutoCloseFd fd;
  kj::Array<uint64_t> buffer;

  void ensureOpen();
  void send(kj::ArrayPtr<const kj::byte> bytes);
  // The messages of one datagram; false: something was lost. Fails at the deadline.
  bool receive(kj::TimePoint until, kj::StringPtr what, kj::FunctionParam<void(Message&&)> handle);
  void transactSome(kj::ArrayPtr<kj::Array<kj::byte>> requests, kj::Vector<Ack>& results);
};

// A bound socket with these multicast groups (0: none), non-blocking when it listens to some.
kj::AutoCloseFd openSocket(int protocol, uint32_t groups);
// Others from now on.
void setGroups(int fd, uint32_t groups);

// Classifies a datagram from recvmsg(): of the kernel and whole, or not.
enum class Received { kMessage, kForeign, kNothing, kOverrun };
Received receiveFrom(int fd, kj::ArrayPtr<uint64_t> buffer, kj::ArrayPtr<const kj::byte>& datagram);

}  // namespace talos::netlink
