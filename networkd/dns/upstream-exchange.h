// One query to one upstream over the network, by UDP or TCP.
//
// A forged answer must match the number and the question of the query, the upstream's address and
// the port of this node (RFC 5452): the number is random, and each query has a socket that the
// kernel binds to a random port and that drops datagrams from other peers. A datagram that does not
// match is dropped, and the true answer may still come. Dropping the promise closes the socket.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/function.h>
#include <kj/refcount.h>

#include "networkd/dns/dns-message.h"

namespace talos::networkd::dns {

// An answer of an upstream, which several queries may wait for.
struct UpstreamAnswer : kj::Refcounted {
  UpstreamAnswer(kj::Array<kj::byte> message, Response response)
      : message(kj::mv(message)), response(kj::mv(response)) {}
  kj::Array<kj::byte> message;
  Response response;
};

class UpstreamNetwork {
 public:
  enum class Transport { kUdp, kTcp };
  virtual ~UpstreamNetwork() noexcept(false) = default;
  // Resolves with the answer to the query. Rejects if the upstream is known to be unreachable; may
  // never resolve.
  virtual kj::Promise<kj::Own<UpstreamAnswer>> exchange(Endpoint upstream, QueryKey key,
                                                        Transport transport) = 0;
};

// `random` returns numbers that no other machine can foresee.
kj::Own<UpstreamNetwork> openUpstreamNetwork(kj::UnixEventPort& port,
                                             kj::LowLevelAsyncIoProvider& lowLevel,
                                             kj::Function<uint16_t()> random);

// Reads a message with its length before it, as TCP carries it; nullptr at the end of the stream.
// Rejects if the stream ends inside a message.
kj::Promise<kj::Maybe<kj::Array<kj::byte>>> readMessage(kj::AsyncInputStream& stream);
kj::Promise<void> writeMessage(kj::AsyncOutputStream& stream, Bytes message);

}  // namespace talos::networkd::dns
