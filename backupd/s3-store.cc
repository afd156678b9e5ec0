#include "backupd/s3-store.h"

#include <kj/compat/http.h>
#include <kj/debug.h>

#include "backupd/s3-signature.h"
#include "common/base/error.h"
#include "common/base/within.h"
#include "common/config/config.h"
#include "common/net/http-body.h"
#include "common/net/http-header-names.h"
#include "common/net/ip.h"
#include "common/text/foreign-text.h"
#include "common/tls/public-authorities.h"
#include "common/xml/xml.h"

namespace talos::backupd {
namespace {

constexpr size_t kLongestText = 300;

kj::String textIn(kj::StringPtr element, kj::ArrayPtr<const char> body) {
  kj::String text;
  // Proxies answer with pages of HTML.
  auto failure = kj::runCatchingExceptions(
      [&]() { text = kj::heapString(textOf(element, "the answer", body)); });
  return failure == nullptr ? kj::mv(text) : kj::String();
}

}  // namespace

S3Page readS3Page(kj::ArrayPtr<const char> body) {
  constexpr auto kList = "ListBucketResult"_kj;
  if (elementsCalled(kList, "the list of the store", body).size() != 1) {
    fail(ErrorKind::kInvalidArgument, "the store answered with no list of objects");
  }
  S3Page page;
  for (auto& key : elementsCalled("Key", "the list of the store", body)) {
    page.keys.add(kj::heapString(key.text));
  }
  auto more = textOf("IsTruncated", "the list of the store", body);
  page.more = kj::heapString(more) == "true";
  return page;
}

kj::String readS3Error(unsigned status, kj::StringPtr statusText, kj::ArrayPtr<const char> body) {
  auto text = kj::str(status, " ", statusText);
  for (auto element : {"Code"_kj, "Message"_kj}) {
    auto found = textIn(element, body);
    if (found.size() > 0) text = kj::str(text, ": ", found);
  }
  return fieldText(text, kLongestText);
}

namespace {

constexpr size_t kPieceBytes = 64u << 10;
constexpr unsigned kMostPages = 100;
constexpr auto kAfterAFailure = 1 * kj::SECONDS;

struct S3Headers : public HttpHeaderNames {
  kj::HttpHeaderId authorization = add("Authorization"), date = add("x-amz-date"),
                   payload = add("x-amz-content-sha256"), userAgent = add("User-Agent");
};

struct S3Answer {
  unsigned status;
  kj::String statusText;
  kj::Array<char> body;
};

kj::HttpMethod methodOf(kj::StringPtr method) {
  return KJ_ASSERT_NONNULL(kj::tryParseHttpMethod(method));
}

class RealS3Store final : public S3Store {
 public:
  RealS3Store(S3Dependencies deps, S3Settings given) : deps(deps), settings(kj::mv(given)) {
    auto parsed = config::parseEndpoint(settings.endpoint);
    if (parsed.problem.size() > 0) fail(ErrorKind::kInvalidArgument, parsed.problem);
    auto& url = parsed.value;
    secure = url.scheme == "https";
    uint16_t usual = secure ? 443 : 80;
    port = url.port.orDefault(usual);
    hostHeader = port == usual ? hostInUrl(url.host) : hostInUrl(url.host, port);
    host = kj::mv(url.host);
  }

  kj::Promise<kj::Vector<kj::String>> list(kj::StringPtr prefix) override {
    kj::Vector<kj::String> keys;
    for (unsigned pages = 0; pages < kMostPages; ++pages) {
      auto request = requestOf("GET", "");
      auto add = [&](kj::StringPtr name, kj::StringPtr value) {
        request.query.add(S3Request::Parameter{kj::str(name), kj::str(value)});
      };
      add("list-type", "2");
      add("prefix", prefix);
      if (!keys.empty()) add("start-after", keys.back());
      auto answer = co_await call(request, nullptr);
      auto page = readS3Page(answer.body);
      for (auto& key : page.keys) {
        // A page without new keys would be requested again for ever.
        if (!key.startsWith(prefix) || (!keys.empty() && key <= keys.back())) {
          fail(ErrorKind::kUnavailable, "the list of the store is not sorted by names");
        }
        keys.add(kj::mv(key));
      }
      if (!page.more || page.keys.empty()) co_return keys;
    }
    fail(ErrorKind::kUnavailable, kj::str("the store has more than ", keys.size(),
                                          " objects below the prefix; use one of its own"));
  }

  kj::Promise<void> put(kj::StringPtr name, S3Upload& upload) override {
    auto request = requestOf("PUT", name);
    request.payload = kj::str(upload.sha256);
    co_await call(request, upload);
  }

  kj::Promise<void> remove(kj::StringPtr name) override {
    auto request = requestOf("DELETE", name);
    co_await call(request, nullptr);
  }

 private:
  S3Dependencies deps;
  S3Settings settings;
  bool secure = false;
  kj::String host, hostHeader;
  uint16_t port = 0;
  S3Headers ids;

  S3Request requestOf(kj::StringPtr method, kj::StringPtr key) {
    return {.method = method,
            .host = hostHeader,
            .path = s3Path(settings.bucket, key),
            .payload = emptyPayload()};
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> dial() {
    auto stream = co_await dialHost(deps.dial, kj::str(host), port);
    if (!secure) co_return kj::mv(stream);
    auto verifier = co_await verifierOf(deps.queue, kj::str(settings.authorities));
    co_return co_await within(
        deps.dial.timer, kDialDeadline, (*verifier)->connect(kj::mv(stream), host),
        kj::str("no TLS handshake within ", kDialDeadline), ErrorKind::kUnavailable);
  }

  // Returns the answer of a successful request.
  kj::Promise<S3Answer> call(const S3Request& request, kj::Maybe<S3Upload&> upload) {
    kj::Maybe<kj::Exception> failed;
    kj::Maybe<S3Answer> answer;
    co_await exchange(request, upload)
        .then([&](S3Answer&& given) { answer = kj::mv(given); },
              [&](kj::Exception&& e) { failed = kj::mv(e); });
    KJ_IF_MAYBE (e, failed) {
      auto kind = kindOf(*e) == ErrorKind::kInternal ? ErrorKind::kUnavailable : kindOf(*e);
      fail(kind, kj::str(settings.endpoint, ": ", messageOf(*e)));
    }
    auto& given = KJ_ASSERT_NONNULL(answer);
    if (given.status >= 200 && given.status < 300) co_return kj::mv(given);
    fail(ErrorKind::kUnavailable,
         kj::str(settings.endpoint, " refused ", request.method, " ", request.path, ": ",
                 readS3Error(given.status, given.statusText, given.body)));
  }

  kj::Promise<S3Answer> exchange(const S3Request& request, kj::Maybe<S3Upload&> upload) {
    auto stream = co_await dial();
    auto http = kj::newHttpClient(ids.table(), *stream);
    auto signature = signS3(request, {settings.accessKey, settings.secretKey, settings.region},
                            deps.clock.now());
    kj::HttpHeaders headers(ids.table());
    headers.set(kj::HttpHeaderId::HOST, request.host);
    headers.set(ids.userAgent, "backupd");
    headers.set(ids.payload, request.payload);
    headers.set(ids.date, signature.date);
    headers.set(ids.authorization, signature.authorization);
    uint64_t size = 0;
    KJ_IF_MAYBE (u, upload) size = u->size;
    auto sent = http->request(methodOf(request.method), s3Target(request), headers, size);
    kj::Maybe<kj::Exception> broken;
    KJ_IF_MAYBE (u, upload) {
      co_await write(*u, *sent.body).catch_([&](kj::Exception&& e) { broken = kj::mv(e); });
    }
    sent.body = nullptr;
    // A store may refuse before it has read everything, and close: its answer is used, if one
    // arrived.
    auto response =
        co_await within(deps.dial.timer, broken == nullptr ? kS3Silence : kAfterAFailure,
                        kj::mv(sent.response), kj::str("no answer within ", kS3Silence),
                        ErrorKind::kUnavailable)
            .catch_([&](kj::Exception&& e) -> kj::HttpClient::Response {
              KJ_IF_MAYBE (first, broken) kj::throwFatalException(kj::mv(*first));
              kj::throwFatalException(kj::mv(e));
            });
    auto body =
        co_await within(deps.dial.timer, kS3Silence,
                        readBody(*response.body, kMostS3Answer, kj::str("the answer is too long"),
                                 ErrorKind::kUnavailable),
                        kj::str("no whole answer within ", kS3Silence), ErrorKind::kUnavailable);
    co_return S3Answer{response.statusCode, kj::str(response.statusText), kj::mv(body)};
  }

  kj::Promise<void> write(S3Upload& upload, kj::AsyncOutputStream& out) {
    for (uint64_t at = 0; at < upload.size;) {
      auto piece = co_await upload.read(at, kj::min(kPieceBytes, upload.size - at));
      if (piece.size() == 0) fail(ErrorKind::kInternal, "the encrypted snapshot is cut off");
      co_await within(deps.dial.timer, kS3Silence, out.write(piece.begin(), piece.size()),
                      kj::str("the store takes nothing for ", kS3Silence), ErrorKind::kUnavailable);
      at += piece.size();
    }
  }
};

}  // namespace

kj::Own<S3Store> s3Store(S3Dependencies deps, S3Settings settings) {
  return kj::heap<RealS3Store>(deps, kj::mv(settings));
}

}  // namespace talos::backupd
