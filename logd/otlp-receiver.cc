#include "logd/otlp-receiver.h"

#include <kj/compat/http.h>

#include "common/base/error.h"
#include "common/base/within.h"

namespace talos::logd {
namespace {

// KJ's client keeps connections to an address; `dialled` counts the new ones.
class DialedReceiver final : public kj::NetworkAddress {
 public:
  DialedReceiver(ReceiverDependencies deps, ReceiverAddress receiver, kj::StringPtr authorities)
      : deps(deps), receiver(kj::mv(receiver)), authorities(kj::str(authorities)) {}

  kj::Promise<kj::Own<kj::AsyncIoStream>> connect() override {
    ++dialled;
    return dialReceiver(deps, receiver, authorities);
  }
  kj::Own<kj::ConnectionReceiver> listen() override { KJ_UNIMPLEMENTED("listen"); }
  kj::Own<kj::NetworkAddress> clone() override { KJ_UNIMPLEMENTED("clone"); }
  kj::String toString() override { return kj::str(receiver.host); }
  unsigned dialled = 0;

 private:
  ReceiverDependencies deps;
  ReceiverAddress receiver;
  kj::String authorities;
};

struct OtlpHeaders {
  kj::HttpHeaderId userAgent, retryAfter;
  kj::Own<kj::HttpHeaderTable> table;

  OtlpHeaders() {
    kj::HttpHeaderTable::Builder builder;
    userAgent = builder.add("User-Agent");
    retryAfter = builder.add("Retry-After");
    table = builder.build();
  }
};

// Bytes behind the limit are not waited for.
kj::Promise<kj::Array<char>> readStart(kj::AsyncInputStream& stream) {
  auto bytes = kj::heapArray<char>(kMostOtlpAnswer);
  auto size = co_await stream.tryRead(bytes.begin(), bytes.size(), bytes.size());
  co_return kj::heapArray<char>(bytes.slice(0, size));
}

class HttpOtlpReceiver final : public OtlpReceiver {
 public:
  HttpOtlpReceiver(ReceiverDependencies deps, ReceiverAddress receiver, kj::StringPtr authorities)
      : timer(deps.timer),
        host(receiver.host.findFirst(':') == nullptr
                 ? kj::str(receiver.host, ":", receiver.port)
                 : kj::str("[", receiver.host, "]:", receiver.port)),
        path(kj::str(receiver.path)),
        address(deps, kj::mv(receiver), authorities),
        http(kj::newHttpClient(deps.timer, *headers.table, address)) {}

  kj::Promise<OtlpAnswer> post(kj::ArrayPtr<const char> request) override {
    return within(timer, kOtlpDeadline, kj::evalNow([&]() { return insist(request); }),
                  kj::str("no answer within ", kOtlpDeadline), ErrorKind::kUnavailable);
  }

 private:
  kj::Timer& timer;
  kj::String host, path;
  OtlpHeaders headers;
  DialedReceiver address;
  kj::Own<kj::HttpClient> http;  // before its address

  kj::Promise<OtlpAnswer> insist(kj::ArrayPtr<const char> request) {
    auto before = address.dialled;
    return once(request).catch_(
        [this, request, before](kj::Exception&& e) -> kj::Promise<OtlpAnswer> {
          bool kept = address.dialled == before;
          if (kept && e.getType() == kj::Exception::Type::DISCONNECTED) return once(request);
          return kj::mv(e);
        });
  }

  kj::Promise<OtlpAnswer> once(kj::ArrayPtr<const char> request) {
    kj::HttpHeaders sent(*headers.table);
    sent.set(kj::HttpHeaderId::HOST, host);
    sent.set(kj::HttpHeaderId::CONTENT_TYPE, "application/json");
    sent.set(headers.userAgent, "logd");
    auto call = http->request(kj::HttpMethod::POST, path, sent, request.size());
    // A receiver may answer, and close, before it has read everything: its answer counts.
    auto writing = call.body->write(request.begin(), request.size())
                       .attach(kj::mv(call.body))
                       .eagerlyEvaluate([](kj::Exception&&) {});
    auto response = co_await call.response;
    auto body = co_await readStart(*response.body);
    co_return readOtlpAnswer(response.statusCode, response.statusText,
                             response.headers->get(headers.retryAfter), body);
  }
};

}  // namespace

kj::Own<OtlpReceiver> otlpReceiver(ReceiverDependencies deps, ReceiverAddress address,
                                   kj::StringPtr authorities) {
  return kj::heap<HttpOtlpReceiver>(deps, kj::mv(address), authorities);
}

}  // namespace talos::logd
