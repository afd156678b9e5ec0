#include "common/tls/tls-validity.h"

#include <string.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/tls/tls.h"

namespace talos {
namespace {

// The words of the alerts for a certificate that has expired, and for one that is not yet valid,
// for which TLS has no alert of its own.
constexpr kj::StringPtr kExpired = "alert certificate expired"_kj;
constexpr kj::StringPtr kBad = "alert bad certificate"_kj;

bool says(const kj::Exception& e, kj::StringPtr words) {
  return strstr(e.getDescription().cStr(), words.cStr()) != nullptr;
}

class Explained final : public kj::AsyncIoStream {
 public:
  Explained(kj::Own<kj::AsyncIoStream> stream, Validity own)
      : inner(kj::mv(stream)), own(kj::mv(own)) {}

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
  kj::Promise<void> whenWriteDisconnected() override { return inner->whenWriteDisconnected(); }
  void shutdownWrite() override { inner->shutdownWrite(); }
  void abortRead() override { inner->abortRead(); }
  void getsockopt(int level, int option, void* value, kj::uint* length) override {
    inner->getsockopt(level, option, value, length);
  }
  void setsockopt(int level, int option, const void* value, kj::uint length) override {
    inner->setsockopt(level, option, value, length);
  }
  void getsockname(struct sockaddr* address, kj::uint* length) override {
    inner->getsockname(address, length);
  }
  void getpeername(struct sockaddr* address, kj::uint* length) override {
    inner->getpeername(address, length);
  }
  kj::Maybe<int> getFd() const override { return inner->getFd(); }

 private:
  kj::Own<kj::AsyncIoStream> inner;
  Validity own;

  kj::Exception explain(kj::Exception&& e) const {
    if (!says(e, kExpired) && !says(e, kBad)) return kj::mv(e);
    return error(ErrorKind::kUnauthenticated,
                 kj::str("the peer refused this certificate (", tlsReason(e), "): it is ",
                         validityText(own, kj::systemCoarseCalendarClock().now())));
  }
};

}  // namespace

kj::String validityText(const Validity& validity, kj::Date now) {
  return kj::str("valid from ", dateText(validity.notBefore), " until ",
                 dateText(validity.notAfter), ", and the clock here shows ", dateText(now));
}

kj::Own<kj::AsyncIoStream> explainRefusal(kj::Own<kj::AsyncIoStream> stream, Validity own) {
  return kj::heap<Explained>(kj::mv(stream), kj::mv(own));
}

}  // namespace talos
