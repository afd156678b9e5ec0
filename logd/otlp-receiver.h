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

// Of each request: who the node is. Values are secret.
struct OtlpHeader {
  kj::String name;
  pki::Pem value;
  OtlpHeader clone() const { return {kj::str(name), value.clone()}; }
};

struct OtlpOptions {
  kj::String authorities;  // as of connectReceiver()
  kj::Array<OtlpHeader> headers;
  config::LogCompression compression = config::LogCompression::NONE;
};

class OtlpReceiver {
 public:
  virtual ~OtlpReceiver() noexcept(false) = default;
  // The request outlives the promise. Unavailable: there was no answer within kOtlpDeadline, or
  // none that is HTTP. Dropped: it may have been taken.
  virtual kj::Promise<OtlpAnswer> post(kj::ArrayPtr<const char> request) = 0;
};

// Connects with the first request. A value of a header that the receiver sends back is *** in the
// message of its answer, which is for logs.
kj::Own<OtlpReceiver> otlpReceiver(ReceiverDependencies deps, ReceiverAddress address,
                                   OtlpOptions options);

}  // namespace talos::logd
