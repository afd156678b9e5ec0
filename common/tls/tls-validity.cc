#include "common/tls/tls-validity.h"

#include <string.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/net/forwarding-stream.h"
#include "common/tls/tls.h"

namespace talos {
namespace {

// OpenSSL's texts of the alert for an expired certificate, and of the general alert for a
// certificate that is not yet valid, because TLS has no special one.
constexpr kj::StringPtr kExpired = "alert certificate expired"_kj;
constexpr kj::StringPtr kBad = "alert bad certificate"_kj;

bool contains(const kj::Exception& e, kj::StringPtr text) {
  return strstr(e.getDescription().cStr(), text.cStr()) != nullptr;
}

class ExplainedStream final : public ForwardingStream {
 public:
  ExplainedStream(kj::Own<kj::AsyncIoStream> stream, Validity own)
      : ForwardingStream(kj::mv(stream)), own(kj::mv(own)) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t minBytes, size_t maxBytes) override {
    return inner->tryRead(buffer, minBytes, maxBytes)
        .catch_([this](kj::Exception&& e) -> kj::Promise<size_t> { return explain(kj::mv(e)); });
  }
  kj::Promise<void> write(const void* buffer, size_t size) override {
    return inner->write(buffer, size).catch_([this](kj::Exception&& e) -> kj::Promise<void> {
      return explain(kj::mv(e));
    });
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    return inner->write(pieces).catch_(
        [this](kj::Exception&& e) -> kj::Promise<void> { return explain(kj::mv(e)); });
  }

 private:
  Validity own;

  kj::Exception explain(kj::Exception&& e) const {
    if (!contains(e, kExpired) && !contains(e, kBad)) return kj::mv(e);
    return error(ErrorKind::kUnauthenticated,
                 kj::str("the peer refused this certificate (", tlsErrorText(e), "): it is ",
                         validityText(own, kj::systemCoarseCalendarClock().now())));
  }
};

}  // namespace

kj::String validityText(const Validity& validity, kj::Date now) {
  return kj::str("valid from ", dateText(validity.notBefore), " until ",
                 dateText(validity.notAfter), ", and the clock here shows ", dateText(now));
}

kj::Own<kj::AsyncIoStream> explainRefusal(kj::Own<kj::AsyncIoStream> stream, Validity own) {
  return kj::heap<ExplainedStream>(kj::mv(stream), kj::mv(own));
}

}  // namespace talos
