#include "machined/confined/parser/http-get.h"

#include <kj/compat/http.h>
#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"
#include "common/memory/secret-buffer.h"
#include "common/tls/tls.h"
#include "machined/confined/parser/config-text.h"

namespace talos::parse {
namespace {

using machined::HttpAnswer, machined::HttpSource, machined::kMostConfigBytes;

[[noreturn]] void fail(kj::StringPtr problem) {
  talos::fail(ErrorKind::kUnavailable, problem);
}

bool isRedirect(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// The range that a server sends: "bytes 5-9/10".
struct HttpRange {
  uint64_t first = 0, size = 0;
};
kj::Maybe<HttpRange> rangeOf(kj::StringPtr text) {
  if (!text.startsWith("bytes ")) return nullptr;
  text = text.slice(6);
  KJ_IF_MAYBE (dash, text.findFirst('-')) {
    KJ_IF_MAYBE (slash, text.findFirst('/')) {
      HttpRange range;
      if (*dash > *slash) return nullptr;
      range.first =
          KJ_UNWRAP_OR_RETURN(kj::heapString(text.slice(0, *dash)).tryParseAs<uint64_t>(), nullptr);
      // The size may be unknown: "*".
      range.size = text.slice(*slash + 1).tryParseAs<uint64_t>().orDefault(0);
      return range;
    }
  }
  return nullptr;
}

kj::HttpMethod methodOf(const HttpSource& place) {
  switch (place.method) {
    case HttpSource::Method::kGet:
      return kj::HttpMethod::GET;
    case HttpSource::Method::kPut:
      return kj::HttpMethod::PUT;
    case HttpSource::Method::kPost:
      return kj::HttpMethod::POST;
  }
  KJ_UNREACHABLE;
}

class Getter {
 public:
  explicit Getter(HttpQuestion q) : question(kj::mv(q)) {
    kj::HttpHeaderTable::Builder builder;
    accept = builder.add("Accept");
    userAgent = builder.add("User-Agent");
    range = builder.add("Range");
    contentRange = builder.add("Content-Range");
    table = builder.build();
  }

  kj::Promise<HttpAnswer> get(kj::Own<kj::AsyncIoStream> connection) {
    auto exchange = co_await ask(kj::mv(connection), 0);
    auto& response = exchange.response;
    if (place.metadata) {
      if (!accepted(response.statusCode)) refuse(response);
      co_return co_await readBody(*response.body);
    }
    KJ_IF_MAYBE (place, moved(response)) co_return kj::mv(*place);
    if (response.statusCode != 200) refuse(response);
    auto text = unpack(co_await readBody(*response.body));
    KJ_ON_SCOPE_FAILURE(zeroize(text));
    requireText(text);
    co_return kj::mv(text);
  }

  kj::Promise<kj::Maybe<HttpSource>> getPieces(kj::Own<kj::AsyncIoStream> connection, uint64_t from,
                                               HttpBody& body) {
    auto exchange = co_await ask(kj::mv(connection), from);
    auto& response = exchange.response;
    KJ_IF_MAYBE (place, moved(response)) co_return kj::mv(*place);
    begin(response, from, body);
    question.reportProgress("reading the answer", 0);
    auto piece = kj::heapArray<kj::byte>(machined::kMostPieceBytes);
    for (;;) {
      // Reads as much as has come, up to a whole piece, to send few messages.
      auto read = kj::evalNow(
          [&]() { return response.body->tryRead(piece.begin(), piece.size(), piece.size()); });
      auto size = co_await read.catch_(
          [&](kj::Exception&& e) -> size_t { fail("the answer was cut off"); });
      if (size > 0) body.piece(piece.slice(0, size));
      if (size < piece.size()) co_return nullptr;
    }
  }

 private:
  HttpQuestion question;
  const HttpSource& place = question.place;
  kj::Own<kj::HttpHeaderTable> table;
  kj::HttpHeaderId accept, userAgent, range, contentRange;

  // The members are in the order in which they depend on each other.
  struct Exchange {
    kj::Own<kj::AsyncIoStream> stream;
    kj::Own<kj::HttpClient> client;
    kj::Own<kj::AsyncOutputStream> sent;
    kj::HttpClient::Response response;
  };
  kj::Promise<Exchange> ask(kj::Own<kj::AsyncIoStream> stream, uint64_t from) {
    if (place.secure) stream = co_await secure(kj::mv(stream));
    auto client = kj::newHttpClient(*table, *stream);
    kj::HttpHeaders headers(*table);
    headers.set(kj::HttpHeaderId::HOST, place.authority);
    headers.set(accept, "*/*");
    headers.set(userAgent, "machined");
    if (from > 0) headers.set(range, kj::str("bytes=", from, "-"));
    question.reportProgress("waiting for the answer", 0);
    for (auto& header : place.headers) headers.add(header.name, header.value);
    auto request = client->request(methodOf(place), place.target, headers, place.body.size());
    if (place.body.size() > 0) co_await request.body->write(place.body.begin(), place.body.size());
    auto response = co_await request.response;
    co_return Exchange{kj::mv(stream), kj::mv(client), kj::mv(request.body), kj::mv(response)};
  }

  // Returns true for a success: a service that accepts something may answer that it has created it.
  bool accepted(unsigned status) const {
    bool posted = place.method == HttpSource::Method::kPost;
    return status == 200 || (posted && (status == 201 || status == 202 || status == 204));
  }

  kj::Maybe<HttpSource> moved(const kj::HttpClient::Response& response) {
    if (!isRedirect(response.statusCode)) return nullptr;
    auto location = KJ_UNWRAP_OR(response.headers->get(kj::HttpHeaderId::LOCATION),
                                 fail(kj::str("the server answered ", response.statusCode, " ",
                                              response.statusText, " without a location")));
    return machined::redirected(place, kj::str(location));
  }

  void begin(kj::HttpClient::Response& response, uint64_t from, HttpBody& body) {
    if (response.statusCode == 200) {
      return body.begins(0, response.body->tryGetLength().orDefault(0));
    }
    if (response.statusCode == 206 && from > 0) {
      KJ_IF_MAYBE (part, rangeOf(response.headers->get(contentRange).orDefault(""))) {
        if (part->first == from) return body.begins(from, part->size);
      }
      fail("the server sent another range than requested");
    }
    refuse(response);
  }

  [[noreturn]] void refuse(const kj::HttpClient::Response& response) {
    auto text = kj::str("the server answered ", response.statusCode, " ", response.statusText);
    switch (response.statusCode) {
      case 404:
      case 410:
        talos::fail(ErrorKind::kNotFound, text);
      case 401:
      case 403:
        talos::fail(ErrorKind::kPermissionDenied, text);
      case 400:
        if (place.metadata) talos::fail(ErrorKind::kInvalidArgument, text);
        break;
      case 405:
        if (place.metadata) talos::fail(ErrorKind::kUnimplemented, text);
        break;
      default:
        break;
    }
    fail(text);
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> secure(kj::Own<kj::AsyncIoStream> stream) {
    question.reportProgress("waiting for the TLS handshake", 0);
    TlsVerifier verifier(question.authorities);
    auto up = verifier.connect(kj::mv(stream), place.host);
    // The clock of a machine without a config has the time of its battery-backed clock.
    co_return co_await up.catch_([this](kj::Exception&& e) -> kj::Own<kj::AsyncIoStream> {
      auto problem = messageOf(e);
      bool ofTime = strstr(problem.cStr(), "expired") != nullptr ||
                    strstr(problem.cStr(), "not yet valid") != nullptr;
      auto seconds = (question.now - kj::UNIX_EPOCH) / kj::SECONDS;
      fail(ofTime ? kj::str(problem, " (the clock of this node is at ", seconds, " s since 1970)")
                  : kj::mv(problem));
    });
  }

  kj::Promise<kj::Array<char>> readBody(kj::AsyncInputStream& body) {
    question.reportProgress("reading the answer", 0);
    auto announced = body.tryGetLength();
    size_t lastReported = 0;
    SecretBuffer content;
    char piece[16384];
    KJ_DEFER(zeroize(kj::arrayPtr(piece, sizeof piece)));
    for (;;) {
      auto read = kj::evalNow([&]() { return body.tryRead(piece, 1, sizeof(piece)); });
      auto size = co_await read.catch_([&](kj::Exception&& e) -> size_t {
        auto of =
            announced == nullptr ? kj::String() : kj::str(" of ", KJ_ASSERT_NONNULL(announced));
        fail(kj::str("the answer was cut off after ", content.size(), of, " bytes"));
      });
      if (size == 0) break;
      content.add(kj::arrayPtr(piece, size));
      // A body may come byte by byte, and the brain accepts at most kMostInterim messages.
      if (content.size() > lastReported + lastReported / 32)
        question.reportProgress("reading the answer", lastReported = content.size());
      if (content.size() > kMostConfigBytes) {
        fail(kj::str("the answer is larger than ", kMostConfigBytes >> 20, " MiB"));
      }
    }
    co_return content.copy();
  }
};

}  // namespace

kj::Promise<HttpAnswer> httpGet(kj::Own<kj::AsyncIoStream> connection, HttpQuestion question) {
  Getter getter(kj::mv(question));
  co_return co_await getter.get(kj::mv(connection));
}

kj::Promise<kj::Maybe<HttpSource>> httpGetPieces(kj::Own<kj::AsyncIoStream> connection,
                                                 HttpQuestion question, uint64_t from,
                                                 HttpBody body) {
  Getter getter(kj::mv(question));
  co_return co_await getter.getPieces(kj::mv(connection), from, body);
}

}  // namespace talos::parse
