// A receiver of OTLP over HTTP: requests, one after the other, on a connection that is kept for
// some seconds.
//
// A request whose kept connection was closed meanwhile is sent once more on a new one. So its lines
// may come twice, as after every connection that broke before the answer.
#pragma once

#include "logd/otlp-answer.h"
#include "logd/receiver.h"

namespace talos::logd {

constexpr auto kOtlpDeadline = 30 * kj::SECONDS;

class OtlpReceiver {
 public:
  virtual ~OtlpReceiver() noexcept(false) = default;
  // The request outlives the promise. Unavailable: there was no answer within kOtlpDeadline, or
  // none that is HTTP. Dropped: it may have been taken.
  virtual kj::Promise<OtlpAnswer> post(kj::ArrayPtr<const char> request) = 0;
};

// Connects with the first request. `authorities`: as of connectReceiver().
kj::Own<OtlpReceiver> otlpReceiver(ReceiverDependencies deps, ReceiverAddress address,
                                   kj::StringPtr authorities);

}  // namespace talos::logd
