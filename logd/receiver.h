// A connection to a receiver of logs.
//
// TCP and TLS: bytes count as delivered when the kernel of the receiver has acknowledged them
// (SIOCOUTQ, tcp(7)); no syslog receiver says more. So lines are lost that a receiver's kernel has
// taken and its program has not read when it ends, and doubled that it has got when the connection
// breaks before the acknowledgement arrives. UDP: a datagram that the own kernel has taken counts.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/timer.h>

#include "common/base/disk-thread.h"

namespace talos::logd {

enum class Transport { kTcp, kUdp, kTls, kHttp, kHttps };

struct ReceiverAddress {
  Transport transport = Transport::kTcp;
  kj::String host;
  uint16_t port = 0;
  kj::String path;  // of http and https; /v1/logs where the endpoint has none
  // Of machine.logging, which was checked. InvalidArgument for any other text.
  static ReceiverAddress parse(kj::StringPtr endpoint);
};

class ReceiverConnection {
 public:
  virtual ~ReceiverConnection() noexcept(false) = default;
  // UDP: one datagram. Resolves when the own kernel has all of it.
  virtual kj::Promise<void> write(kj::ArrayPtr<const char> bytes) = 0;
  // Bytes that the own kernel has got.
  virtual uint64_t written() const = 0;
  // Those of them that are delivered; none when the connection is over.
  virtual kj::Maybe<uint64_t> delivered() = 0;
  // Rejects when the receiver has ended the connection.
  virtual kj::Promise<void> ended() = 0;
};

struct ReceiverDependencies {
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::UnixEventPort& port;
  kj::Timer& timer;
  DiskQueue& disk;  // for the public authorities
};

// A stream to a receiver that is not of UDP, with TLS where it has that. `authorities`: PEM; empty:
// the public ones of the image. Name or address of the receiver must be in its certificate.
// Unavailable within 20 s.
kj::Promise<kj::Own<kj::AsyncIoStream>> dialReceiver(ReceiverDependencies deps,
                                                     const ReceiverAddress& address,
                                                     kj::StringPtr authorities);

// The same with what arrives counted; or UDP. Of HTTP see otlp-receiver.h.
kj::Promise<kj::Own<ReceiverConnection>> connectReceiver(ReceiverDependencies deps,
                                                         const ReceiverAddress& address,
                                                         kj::StringPtr authorities);

}  // namespace talos::logd
