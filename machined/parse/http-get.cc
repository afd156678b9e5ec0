#include "machined/parse/http-get.h"

#include <kj/compat/http.h>
#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/secret-buffer.h"
#include "common/tls/tls.h"
#include "machined/parse/text.h"

namespace talos::parse {
namespace {

using machined::HttpAnswer, machined::HttpSource, machined::kMostConfigBytes;

[[noreturn]] void fail(kj::StringPtr why) {
  talos::fail(ErrorKind::kUnavailable, why);
}

bool isRedirect(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

class Getter {
 public:
  Getter(const HttpSource& place, kj::StringPtr authorities, kj::Date now,
         kj::Function<void(kj::StringPtr, size_t)> tell)
      : place(place), authorities(authorities), now(now), tell(kj::mv(tell)) {
    kj::HttpHeaderTable::Builder builder;
    accept = builder.add("Accept");
    userAgent = builder.add("User-Agent");
    table = builder.build();
  }

  kj::Promise<HttpAnswer> get(kj::Own<kj::AsyncIoStream> connection) {
    auto stream = kj::mv(connection);
    if (place.secure) stream = co_await secure(kj::mv(stream));
    auto client = kj::newHttpClient(*table, *stream);
    kj::HttpHeaders headers(*table);
    headers.set(kj::HttpHeaderId::HOST, place.authority);
    headers.set(accept, "*/*");
    headers.set(userAgent, "machined");
    tell("waiting for the answer", 0);
    auto request = client->request(kj::HttpMethod::GET, place.target, headers, uint64_t(0));
    auto response = co_await request.response;
    if (isRedirect(response.statusCode)) {
      auto location = KJ_UNWRAP_OR(response.headers->get(kj::HttpHeaderId::LOCATION),
                                   fail(kj::str("the server answered ", response.statusCode, " ",
                                                response.statusText, " without a location")));
      co_return machined::redirected(place, kj::str(location));
    }
    if (response.statusCode != 200) {
      fail(kj::str("the server answered ", response.statusCode, " ", response.statusText));
    }
    auto text = unpack(co_await readBody(*response.body));
    KJ_ON_SCOPE_FAILURE(zeroize(text));
    requireText(text);
    co_return kj::mv(text);
  }

 private:
  const HttpSource& place;
  kj::StringPtr authorities;
  kj::Date now;
  kj::Function<void(kj::StringPtr, size_t)> tell;
  kj::Own<kj::HttpHeaderTable> table;
  kj::HttpHeaderId accept, userAgent;

  kj::Promise<kj::Own<kj::AsyncIoStream>> secure(kj::Own<kj::AsyncIoStream> stream) {
    tell("waiting for the TLS handshake", 0);
    TlsVerifier verifier(authorities);
    auto up = verifier.connect(kj::mv(stream), place.host);
    // The clock of a machine without a config is whatever its battery kept.
    co_return co_await up.catch_([this](kj::Exception&& e) -> kj::Own<kj::AsyncIoStream> {
      auto why = messageOf(e);
      bool ofTime = strstr(why.cStr(), "expired") != nullptr ||
                    strstr(why.cStr(), "not yet valid") != nullptr;
      auto seconds = (now - kj::UNIX_EPOCH) / kj::SECONDS;
      fail(ofTime ? kj::str(why, " (the clock of this node is at ", seconds, " s since 1970)")
                  : kj::mv(why));
    });
  }

  kj::Promise<kj::Array<char>> readBody(kj::AsyncInputStream& body) {
    tell("reading the answer", 0);
    auto told = body.tryGetLength();
    size_t toldOf = 0;
    SecretBuffer content;
    char piece[16384];
    KJ_DEFER(zeroize(kj::arrayPtr(piece, sizeof piece)));
    for (;;) {
      auto read = kj::evalNow([&]() { return body.tryRead(piece, 1, sizeof(piece)); });
      auto size = co_await read.catch_([&](kj::Exception&& e) -> size_t {
        auto of = told == nullptr ? kj::String() : kj::str(" of ", KJ_ASSERT_NONNULL(told));
        fail(kj::str("the answer was cut off after ", content.size(), of, " bytes"));
      });
      if (size == 0) break;
      content.add(kj::arrayPtr(piece, size));
      // A body may come byte by byte, and the brain hears no more than kMostInterim messages.
      if (content.size() > toldOf + toldOf / 32)
        tell("reading the answer", toldOf = content.size());
      if (content.size() > kMostConfigBytes) {
        fail(kj::str("the answer is larger than ", kMostConfigBytes >> 20, " MiB"));
      }
    }
    co_return content.copy();
  }
};

}  // namespace

kj::Promise<HttpAnswer> httpGet(kj::Own<kj::AsyncIoStream> connection, const HttpSource& place,
                                kj::StringPtr authorities, kj::Date now,
                                kj::Function<void(kj::StringPtr, size_t)> tell) {
  Getter getter(place, authorities, now, kj::mv(tell));
  co_return co_await getter.get(kj::mv(connection));
}

}  // namespace talos::parse
