#include "common/net/http-url.h"

#include "common/net/text-values.h"

namespace talos {
namespace {

constexpr kj::StringPtr kPlain = "http://"_kj, kSecure = "https://"_kj;
constexpr uint16_t kPlainPort = 80, kSecurePort = 443;

}  // namespace

kj::Maybe<HostPort> parseHostPort(kj::StringPtr text) {
  if (!config::isHostAndPort(text, true)) return nullptr;
  KJ_IF_MAYBE (colon, text.findLast(':')) {
    auto host = text.slice(0, *colon);
    bool brackets = host.size() > 0 && host[0] == '[';
    if (brackets) host = host.slice(1, host.size() - 1);
    KJ_IF_MAYBE (port, config::parsePort(text.slice(*colon + 1))) {
      return HostPort{kj::heapString(host), *port};
    }
  }
  return nullptr;
}

kj::Maybe<HttpUrl> parseHttpUrl(kj::StringPtr text) {
  bool secure = text.startsWith(kSecure);
  if ((!secure && !text.startsWith(kPlain)) || !config::isVisible(text)) return nullptr;
  auto rest = text.slice(secure ? kSecure.size() : kPlain.size());
  size_t end = 0, last = 0;
  while (end < rest.size() && rest[end] != '/' && rest[end] != '?' && rest[end] != '#') ++end;
  for (last = end; last < rest.size() && rest[last] != '#';) ++last;
  auto authority = kj::heapString(rest.slice(0, end));
  auto target = rest.slice(end, last);
  bool root = target.size() == 0 || target[0] != '/';
  HttpUrl url{.secure = secure,
              .authority = kj::str(authority),
              .host = {},
              .port = secure ? kSecurePort : kPlainPort,
              .target = kj::str(root ? "/" : "", target)};
  if (!config::isHostAndPort(authority, false)) return nullptr;
  KJ_IF_MAYBE (both, parseHostPort(authority)) {
    url.host = kj::mv(both->host);
    url.port = both->port;
  } else {
    bool brackets = authority[0] == '[';
    url.host =
        brackets ? kj::heapString(authority.slice(1, authority.size() - 1)) : kj::mv(authority);
  }
  return kj::mv(url);
}

}  // namespace talos
