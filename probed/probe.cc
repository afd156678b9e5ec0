#include "probed/probe.h"

#include <kj/compat/http.h>

#include "common/base/within.h"
#include "common/net/http-url.h"
#include "common/text/foreign-text.h"

namespace talos::probed {
namespace {

constexpr unsigned kFirstGood = 200, kLastGood = 399;
constexpr size_t kMostStatusText = 200;

kj::Promise<void> connect(DialDependencies dialing, kj::StringPtr endpoint, kj::Duration timeout) {
  auto parsed = parseHostPort(endpoint);
  KJ_IF_MAYBE (at, parsed) {
    (void)co_await dialHost(dialing, kj::mv(at->host), at->port, timeout);
  } else {
    fail(ErrorKind::kInvalidArgument, "not a host and a port");
  }
}

kj::Promise<void> get(DialDependencies dialing, KeptAuthorities& authorities, HttpUrl url,
                      kj::Duration timeout) {
  auto stream = co_await dialHost(dialing, kj::str(url.host), url.port, timeout);
  std::shared_ptr<TlsVerifier> verifier;
  if (url.secure) {
    verifier = authorities.verifier();
    stream = co_await verifier->connect(kj::mv(stream), url.host);
  }
  kj::HttpHeaderTable::Builder builder;
  auto accept = builder.add("Accept"), userAgent = builder.add("User-Agent");
  auto table = builder.build();
  auto client = kj::newHttpClient(*table, *stream);
  kj::HttpHeaders sent(*table);
  sent.set(kj::HttpHeaderId::HOST, url.authority);
  sent.set(accept, "*/*");
  sent.set(userAgent, "probed");
  auto request = client->request(kj::HttpMethod::GET, url.target, sent, uint64_t(0));
  auto response = co_await request.response;
  if (response.statusCode >= kFirstGood && response.statusCode <= kLastGood) co_return;
  fail(ErrorKind::kUnavailable, kj::str("the server answered ", response.statusCode, " ",
                                        fieldText(response.statusText, kMostStatusText)));
}

}  // namespace

std::shared_ptr<TlsVerifier> KeptAuthorities::verifier() {
  if (made == nullptr || timer.now() >= until) {
    made = std::make_shared<TlsVerifier>(read());
    until = timer.now() + kKept;
  }
  return made;
}

kj::Promise<void> ask(DialDependencies dialing, KeptAuthorities& authorities,
                      const ProbeSettings& settings) {
  auto asking = kj::evalNow([&]() -> kj::Promise<void> {
    if (!settings.http) return connect(dialing, settings.target, settings.timeout);
    auto url = parseHttpUrl(settings.target);
    KJ_IF_MAYBE (u, url) return get(dialing, authorities, kj::mv(*u), settings.timeout);
    return error(ErrorKind::kInvalidArgument, "not a URL of http or https");
  });
  return within(dialing.timer, settings.timeout, kj::mv(asking),
                kj::str("no answer within ", settings.timeout));
}

}  // namespace talos::probed
