#include "manifestd/manifest-fetch.h"

#include <ctype.h>
#include <kj/compat/http.h>
#include <strings.h>

#include "common/base/within.h"
#include "common/memory/zeroize.h"
#include "common/net/http-body.h"
#include "common/text/foreign-text.h"
#include "common/text/secret-text.h"

namespace talos::manifestd {
namespace {

constexpr size_t kMostStatusText = 200;

// A value may be a secret: error messages do not show it.
void requireHeader(kj::StringPtr name, kj::StringPtr value) {
  for (auto ours : {"host", "content-length", "connection", "transfer-encoding", "accept",
                    "user-agent", "upgrade", "te", "trailer", "keep-alive"}) {
    if (strcasecmp(name.cStr(), ours) == 0) {
      fail(ErrorKind::kInvalidArgument, kj::str("the header ", name, " cannot be set"));
    }
  }
  bool fine = name.size() > 0;
  for (char c : name)
    fine = fine && (isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_');
  for (char c : value) fine = fine && (c == '\t' || (c >= ' ' && c != 0x7f) || c < 0);
  if (!fine) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the header \"", name,
                 "\" or its value has characters that are not valid in headers"));
  }
}

class ManifestFetch {
 public:
  ManifestFetch(DialDependencies dialing, FetchHeaders headers,
                kj::Function<TlsVerifier&()>& verifier)
      : dialing(dialing), headers(headers), verifier(verifier) {
    kj::HttpHeaderTable::Builder builder;
    accept = builder.add("Accept");
    userAgent = builder.add("User-Agent");
    for (auto& [name, value] : headers) {
      requireHeader(name, value);
      ids.add(builder.add(name));
    }
    table = builder.build();
  }

  kj::Promise<kj::String> run(ManifestSource source) {
    auto first = kj::str(source.url.host);
    for (unsigned i = 0; i <= kMostManifestRedirects; ++i) {
      auto next = co_await get(source, source.url.host == first);
      KJ_SWITCH_ONEOF(next) {
        KJ_CASE_ONEOF(body, kj::Array<char>) {
          KJ_DEFER(zeroize(body));
          co_return readManifest(source, body);
        }
        KJ_CASE_ONEOF(place, ManifestSource) {
          source = kj::mv(place);
        }
      }
    }
    fail(ErrorKind::kUnavailable,
         kj::str("the server redirects more than ", kMostManifestRedirects, " times"));
  }

  kj::String withoutSecrets(kj::String text) const {
    for (auto& header : headers) text = withoutHeaderValue(text, header.second);
    return text;
  }

 private:
  DialDependencies dialing;
  FetchHeaders headers;
  kj::Function<TlsVerifier&()>& verifier;
  kj::Own<kj::HttpHeaderTable> table;
  kj::HttpHeaderId accept, userAgent;
  kj::Vector<kj::HttpHeaderId> ids;

  using Got = kj::OneOf<kj::Array<char>, ManifestSource>;

  kj::Promise<Got> get(const ManifestSource& source, bool withHeaders) {
    auto stream = co_await dialHost(dialing, source.host(), source.port());
    if (source.secure()) stream = co_await verifier().connect(kj::mv(stream), source.host());
    auto client = kj::newHttpClient(*table, *stream);
    kj::HttpHeaders sent(*table);
    sent.set(kj::HttpHeaderId::HOST, source.url.host);
    sent.set(accept, "*/*");
    sent.set(userAgent, "manifestd");
    if (withHeaders) {
      for (auto i : kj::indices(ids)) sent.set(ids[i], headers[i].second);
    }
    auto request = client->request(kj::HttpMethod::GET, source.target(), sent, uint64_t(0));
    auto response = co_await request.response;
    KJ_IF_MAYBE (location, response.headers->get(kj::HttpHeaderId::LOCATION)) {
      if (response.statusCode / 100 == 3) co_return redirected(source, *location);
    }
    if (response.statusCode != 200) {
      fail(ErrorKind::kUnavailable,
           kj::str("the server answered ", response.statusCode, " ",
                   fieldText(withoutSecrets(kj::str(response.statusText)), kMostStatusText)));
    }
    co_return co_await readBody(*response.body, kMostManifest,
                                kj::str("it is larger than ", kMostManifest >> 20, " MiB"));
  }
};

}  // namespace

kj::Promise<kj::String> fetchManifest(DialDependencies dialing, ManifestSource source,
                                      FetchHeaders headers,
                                      kj::Function<TlsVerifier&()>& verifier) {
  auto fetch = kj::heap<ManifestFetch>(dialing, headers, verifier);
  auto& running = *fetch;
  return within(dialing.timer, kFetchDeadline, running.run(kj::mv(source)),
                kj::str("no answer within ", kFetchDeadline))
      .catch_([&running](kj::Exception&& e) -> kj::Promise<kj::String> {
        return error(kindOf(e), running.withoutSecrets(messageOf(e)));
      })
      .attach(kj::mv(fetch));
}

}  // namespace talos::manifestd
