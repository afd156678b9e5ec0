#include "logd/otlp-receiver.h"

#include <kj/compat/http.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/net/host-dial.h"
#include "common/net/http-header-names.h"
#include "common/net/ip.h"
#include "common/tar/tar-writer.h"
#include "common/text/secret-text.h"

namespace talos::logd {
namespace {

using config::LogCompression;

struct OtlpHeaders : public HttpHeaderNames {
  kj::HttpHeaderId userAgent = add("User-Agent"), retryAfter = add("Retry-After"),
                   contentEncoding = add("Content-Encoding");
};

// Reads the body up to the limit, and does not wait for more.
kj::Promise<kj::Array<char>> readStart(kj::AsyncInputStream& stream) {
  auto bytes = kj::heapArray<char>(kMostOtlpAnswer);
  auto size = co_await stream.tryRead(bytes.begin(), bytes.size(), bytes.size());
  co_return kj::heapArray<char>(bytes.slice(0, size));
}

// Compresses the request; takes about 3 ms for the largest.
kj::Array<kj::byte> compressed(kj::ArrayPtr<const char> request) {
  kj::Vector<kj::byte> out;
  Gzip gzip;
  gzip.write(request.asBytes(), out);
  gzip.finish(out);
  return out.releaseAsArray();
}

class HttpOtlpReceiver final : public OtlpReceiver {
 public:
  HttpOtlpReceiver(ReceiverDependencies deps, ReceiverAddress receiver, OtlpOptions settings)
      : deps(deps),
        receiver(kj::mv(receiver)),
        options(kj::mv(settings)),
        host(hostInUrl(this->receiver.host, this->receiver.port)) {}

  kj::Promise<OtlpAnswer> post(kj::ArrayPtr<const char> request) override {
    return within(deps.timer, kOtlpDeadline, kj::evalNow([&]() { return encode(request); }),
                  kj::str("no answer within ", kOtlpDeadline), ErrorKind::kUnavailable);
  }

  uint64_t sentRequests() const override { return sent; }

 private:
  ReceiverDependencies deps;
  ReceiverAddress receiver;
  OtlpOptions options;
  kj::String host;
  OtlpHeaders headers;
  unsigned dialled = 0;  // number of connections
  bool open = false;     // the newest connection was opened
  uint64_t sent = 0;     // number of requests
  DialedAddress address{host, [this]() {
                          ++dialled;
                          open = false;
                          return dialReceiver(deps, receiver, options.authorities)
                              .then([this](kj::Own<kj::AsyncIoStream> stream) {
                                open = true;
                                return stream;
                              });
                        }};
  kj::Own<kj::HttpClient> http = kj::newHttpClient(deps.timer, headers.table(), address);

  kj::Promise<OtlpAnswer> encode(kj::ArrayPtr<const char> request) {
    if (options.compression != LogCompression::GZIP) return insist(request.asBytes());
    auto packed = compressed(request);
    auto bytes = packed.asPtr();
    return insist(bytes).attach(kj::mv(packed));
  }

  kj::Promise<OtlpAnswer> insist(kj::ArrayPtr<const kj::byte> request) {
    auto before = dialled;
    return once(request).catch_(
        [this, request, before](kj::Exception&& e) -> kj::Promise<OtlpAnswer> {
          bool kept = dialled == before;
          if (kept && e.getType() == kj::Exception::Type::DISCONNECTED) return once(request);
          return kj::mv(e);
        });
  }

  kj::Promise<OtlpAnswer> once(kj::ArrayPtr<const kj::byte> request) {
    kj::HttpHeaders fields(headers.table());
    fields.set(kj::HttpHeaderId::HOST, host);
    fields.set(kj::HttpHeaderId::CONTENT_TYPE, "application/json");
    fields.set(headers.userAgent, "logd");
    if (options.compression == LogCompression::GZIP) fields.set(headers.contentEncoding, "gzip");
    for (auto& header : options.headers) fields.add(header.name, header.value);
    KJ_DEFER(sent += open ? 1 : 0);
    auto call = http->request(kj::HttpMethod::POST, receiver.path, fields, request.size());
    // A receiver may answer, and close, before it has read everything: its answer is used.
    auto writing = call.body->write(request.begin(), request.size())
                       .attach(kj::mv(call.body))
                       .eagerlyEvaluate([](kj::Exception&&) {});
    auto response = co_await call.response;
    auto body = co_await readStart(*response.body);
    auto answer = readOtlpAnswer(response.statusCode, response.statusText,
                                 response.headers->get(headers.retryAfter), body,
                                 [this](kj::String text) { return withoutSecrets(kj::mv(text)); });
    co_return kj::mv(answer);
  }

  kj::String withoutSecrets(kj::String text) const {
    for (auto& header : options.headers) text = withoutHeaderValue(text, header.value);
    return text;
  }
};

}  // namespace

kj::Own<OtlpReceiver> otlpReceiver(ReceiverDependencies deps, ReceiverAddress address,
                                   OtlpOptions options) {
  return kj::heap<HttpOtlpReceiver>(deps, kj::mv(address), kj::mv(options));
}

}  // namespace talos::logd
