#include "logd/otlp-answer.h"

#include "common/kube/json.h"
#include "common/kube/kube-api.h"
#include "common/text/foreign-text.h"

namespace talos::logd {
namespace {

using Outcome = OtlpAnswer::Outcome;

constexpr size_t kLongestMessage = 200;

Outcome outcomeOf(unsigned status) {
  switch (status) {
    case 413:
      return Outcome::kTooLarge;
    case 401:
    case 403:
    case 429:
    case 502:
    case 503:
    case 504:
      return Outcome::kLater;
    default:
      if (status >= 200 && status < 300) return Outcome::kAccepted;
      return status >= 300 && status < 400 ? Outcome::kLater : Outcome::kRefused;
  }
}

// Returns nullptr if the body is not JSON. Receivers answer with an empty body, with text, or,
// through a proxy, with a page.
kj::Maybe<kube::Json> tryReadJson(kj::ArrayPtr<const char> body) {
  kj::Maybe<kube::Json> value;
  auto failure = kj::runCatchingExceptions([&]() { value = kube::readJson(body, "the answer"); });
  if (failure != nullptr) return nullptr;
  return value;
}

// Reads an int64 of protobuf: a text in JSON, or a number from receivers that are not strict.
uint64_t countAt(const kube::Json& value, kube::JsonPath path) {
  auto text = kube::textAt(value, path);
  if (text.size() == 0) {
    return static_cast<uint64_t>(kj::max(kube::numberAt(value, path), int64_t{0}));
  }
  return static_cast<uint64_t>(kj::max(text.tryParseAs<int64_t>().orDefault(0), int64_t{0}));
}

kj::String plain(kj::StringPtr text) {
  kj::Vector<char> out;
  addEscaped(out, text, Surface::kTerminal, kLongestMessage);
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

}  // namespace

OtlpAnswer readOtlpAnswer(unsigned status, kj::StringPtr statusText,
                          kj::Maybe<kj::StringPtr> retryAfter, kj::ArrayPtr<const char> body,
                          kj::FunctionParam<kj::String(kj::String)> hide) {
  OtlpAnswer answer;
  auto shown = [&](kj::StringPtr text) { return plain(hide(kj::str(text))); };
  answer.outcome = outcomeOf(status);
  kj::String reason;
  KJ_IF_MAYBE (value, tryReadJson(body)) {
    if (answer.outcome == Outcome::kAccepted) {
      answer.rejected = countAt(*value, {"partialSuccess", "rejectedLogRecords"});
      reason = shown(kube::textAt(*value, {"partialSuccess", "errorMessage"}));
    } else {
      reason = shown(kube::textAt(*value, {"message"}));  // field of google.rpc.Status
    }
  }
  answer.message = kj::str(status, statusText.size() > 0 ? " " : "", shown(statusText),
                           reason.size() > 0 ? ": " : "", reason);
  if (answer.outcome == Outcome::kLater) {
    KJ_IF_MAYBE (header, retryAfter) answer.pause = kube::readRetryAfter(*header);
  }
  return answer;
}

}  // namespace talos::logd
