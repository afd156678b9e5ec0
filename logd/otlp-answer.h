// The answer of a receiver of OTLP over HTTP, and what follows from it (OTLP specification, "OTLP/
// HTTP Response"): the lines are there, are to be sent again later, or never.
//
// Pure and total over foreign bytes.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

namespace talos::logd {

constexpr size_t kMostOtlpAnswer = 64u << 10;

struct OtlpAnswer {
  enum class Outcome {
    kAccepted,
    // 429, 502, 503, 504; redirects: nothing is lost by a receiver that moves; and, unlike the
    // specification, 401 and 403: nothing is lost by a token that has expired.
    kLater,
    kTooLarge,  // 413: in smaller requests
    kRefused,   // every other one: these lines will never be taken
  };
  Outcome outcome = Outcome::kRefused;
  uint64_t rejected = 0;                    // accepted: records that were not
  kj::Maybe<kj::Duration> pause = nullptr;  // later: Retry-After, a minute at most
  kj::String message = nullptr;  // plain text for the log: status, and what the receiver says
};

// `body`: at most the first kMostOtlpAnswer bytes.
OtlpAnswer readOtlpAnswer(unsigned status, kj::StringPtr statusText,
                          kj::Maybe<kj::StringPtr> retryAfter, kj::ArrayPtr<const char> body);

}  // namespace talos::logd
