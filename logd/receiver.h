// A connection to a receiver of logs.
//
// TCP and TLS: bytes count as delivered when the kernel of the receiver has acknowledged them
// (SIOCOUTQ, tcp(7)); no syslog receiver confirms more. A load balancer may acknowledge bytes that
// no receiver gets, so destination.h keeps lines for some time after their acknowledgement. UDP: a
// datagram counts as delivered when the local kernel has accepted it.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/timer.h>

#include "common/base/disk-thread.h"

namespace talos::logd {

enum class Transport { kTcp, kUdp, kTls, kHttp, kHttps, kGrpc };

struct ReceiverAddress {
  Transport transport = Transport::kTcp;
  kj::String host;
  uint16_t port = 0;
  kj::String path;  // for http and https; /v1/logs if the endpoint has no path
  // Parses an endpoint of machine.logging, which was checked. InvalidArgument for any other text.
  static ReceiverAddress parse(kj::StringPtr endpoint);
};

class ReceiverConnection {
 public:
  virtual ~ReceiverConnection() noexcept(false) = default;
  // UDP: one datagram. Resolves when the local kernel has all bytes.
  virtual kj::Promise<void> write(kj::ArrayPtr<const char> bytes) = 0;
  // Returns the number of bytes that the local kernel has accepted.
  virtual uint64_t written() const = 0;
  // Returns the number of delivered bytes; nullptr if the receiver has ended the connection.
  virtual kj::Maybe<uint64_t> delivered() = 0;
  // Rejects when the receiver has ended the connection.
  virtual kj::Promise<void> ended() = 0;
};

struct ReceiverDependencies {
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::UnixEventPort& port;
  kj::Timer& timer;
  DiskQueue& disk;  // reads the public authorities
};

// Opens a stream to a receiver (not UDP), with TLS if its address says so. `authorities`: PEM;
// empty: the image's public ones. Name or address of the receiver must be in its certificate.
// Unavailable within 20 s.
kj::Promise<kj::Own<kj::AsyncIoStream>> dialReceiver(ReceiverDependencies deps,
                                                     const ReceiverAddress& address,
                                                     kj::StringPtr authorities);

// Opens such a stream with a count of the acknowledged bytes, or a UDP socket. For HTTP see
// otlp-receiver.h, for gRPC event-receiver.h.
kj::Promise<kj::Own<ReceiverConnection>> connectReceiver(ReceiverDependencies deps,
                                                         const ReceiverAddress& address,
                                                         kj::StringPtr authorities);

}  // namespace talos::logd
