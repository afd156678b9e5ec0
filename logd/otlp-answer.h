// The answer of a receiver of OTLP over HTTP, and its consequence (OTLP specification, "OTLP/HTTP
// Response"): the lines have arrived, are to be sent again later, or never.
//
// Pure and total over untrusted bytes.
#pragma once

#include <kj/function.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos::logd {

constexpr size_t kMostOtlpAnswer = 64u << 10;

struct OtlpAnswer {
  enum class Outcome {
    kAccepted,
    // 429, 502, 503, 504; redirects, so that a receiver that moves loses no lines; and, unlike the
    // specification, 401 and 403, so that an expired token loses no lines.
    kLater,
    kTooLarge,  // 413: retry in smaller requests
    kRefused,   // every other status: the receiver will never accept these lines
  };
  Outcome outcome = Outcome::kRefused;
  uint64_t rejected = 0;                    // kAccepted: number of records that were not accepted
  kj::Maybe<kj::Duration> pause = nullptr;  // kLater: Retry-After, a minute at most
  kj::String message = nullptr;  // plain text for the log: status, and the receiver's message
};

// `body`: at most the first kMostOtlpAnswer bytes. `hide` removes secrets from a text of the
// receiver, before it is escaped and shortened.
OtlpAnswer readOtlpAnswer(unsigned status, kj::StringPtr statusText,
                          kj::Maybe<kj::StringPtr> retryAfter, kj::ArrayPtr<const char> body,
                          kj::FunctionParam<kj::String(kj::String)> hide);

}  // namespace talos::logd
