// A receiver of OTLP over HTTP: requests, one after the other, on a connection that is kept for
// some seconds.
//
// A request whose kept connection was closed meanwhile is sent once more on a new one. So its lines
// may come twice, as after every connection that broke before the answer.
#pragma once

#include "common/tls/pki.h"
#include "logd/otlp-answer.h"
#include "logd/receiver.h"
#include "rpc/config-monitoring.capnp.h"

namespace talos::logd {

constexpr auto kOtlpDeadline = 30 * kj::SECONDS;

// A header of each request, which identifies the node. Values are secret.
struct OtlpHeader {
  kj::String name;
  pki::Pem value;
  OtlpHeader clone() const { return {kj::str(name), value.clone()}; }
};

struct OtlpOptions {
  kj::String authorities;  // as for connectReceiver()
  kj::Array<OtlpHeader> headers;
  config::LogCompression compression = config::LogCompression::NONE;
};

class OtlpReceiver {
 public:
  virtual ~OtlpReceiver() noexcept(false) = default;
  // Sends the request, which outlives the promise. Rejects with Unavailable if no answer arrived
  // within kOtlpDeadline, or it is not HTTP. If the promise is dropped, the receiver may have
  // accepted the lines.
  virtual kj::Promise<OtlpAnswer> post(kj::ArrayPtr<const char> request) = 0;
  // Returns how often post() has sent a request, or a part of it, on an open connection.
  virtual uint64_t sentRequests() const = 0;
};

// Connects with the first request. If the receiver repeats a header's value, the value is *** in
// the message of its answer, which is for logs.
kj::Own<OtlpReceiver> otlpReceiver(ReceiverDependencies deps, ReceiverAddress address,
                                   OtlpOptions options);

}  // namespace talos::logd
