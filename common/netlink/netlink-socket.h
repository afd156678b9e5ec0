// A netlink socket that sends a request and waits for its result: requests with acknowledgements,
// and dumps. Any netlink protocol.
//
// Only datagrams from the kernel are accepted. A request without an answer within the deadline
// fails with kUnavailable naming the request; the socket is then replaced, so that a late answer
// cannot be taken for the answer to another request.
#pragma once

#include "common/netlink/netlink-codec.h"

namespace talos::netlink {

class Socket {
 public:
  // protocol: NETLINK_ROUTE ...
  Socket(int protocol, kj::Duration deadline);
  ~Socket() noexcept(false);
  KJ_DISALLOW_COPY(Socket);

  // Sends the requests in few writes and collects the result of each. Only the last request of a
  // write is acknowledged: the kernel handles requests in order and reports at once those that it
  // refuses. A request whose answer was lost has code ENOBUFS.
  kj::Vector<Ack> transact(kj::ArrayPtr<kj::Array<kj::byte>> requests);
  // Does the same in one write, however long: the batch of a transaction of nf_tables.
  kj::Vector<Ack> transactAtOnce(kj::ArrayPtr<kj::Array<kj::byte>> requests);

  // Returns everything that the request lists, or the answer to a request with NLM_F_ACK. Starts
  // again if the kernel reports that the list changed meanwhile. Throws kFailedPrecondition with
  // the kernel's error.
  kj::Vector<Message> dump(kj::Array<kj::byte> request, kj::StringPtr what);
  // Does the same, passing each message as it arrives; `again`: messages passed before are no
  // longer valid.
  void dump(kj::Array<kj::byte> request, kj::StringPtr what, kj::FunctionParam<void()> again,
            kj::FunctionParam<void(Message&&)> each);
  // Does the same, and returns the error of a request that the kernel refuses instead of throwing
  // it; code 0 if the kernel has answered.
  Ack tryDump(kj::Array<kj::byte> request, kj::StringPtr what, kj::FunctionParam<void()> again,
              kj::FunctionParam<void(Message&&)> each);
  // Zeroes the received bytes, after a secret.
  void wipe();

 private:
  int protocol;
  kj::Duration deadline;
  uint32_t sequence = 0;
  kj::AutoCloseFd fd;
  kj::Array<uint64_t> buffer;

  void ensureOpen();
  void send(kj::ArrayPtr<const kj::byte> bytes);
  // Handles the messages of one datagram; returns false if something was lost. Fails at the
  // deadline.
  bool receive(kj::TimePoint until, kj::StringPtr what, kj::FunctionParam<void(Message&&)> handle);
  void transactSome(kj::ArrayPtr<kj::Array<kj::byte>> requests, kj::Vector<Ack>& results);
};

// Returns a bound socket with these multicast groups (0 for none), non-blocking if it listens to
// some.
kj::AutoCloseFd openSocket(int protocol, uint32_t groups);
// Replaces the groups.
void setGroups(int fd, uint32_t groups);

// Class of a datagram from recvmsg(): complete and from the kernel, or not.
enum class Received { kMessage, kForeign, kNothing, kOverrun };
Received receiveFrom(int fd, kj::ArrayPtr<uint64_t> buffer, kj::ArrayPtr<const kj::byte>& datagram);

}  // namespace talos::netlink
