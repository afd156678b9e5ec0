#include "common/net/http-url.h"

#include "common/net/text-values.h"

namespace talos {
namespace {

constexpr kj::StringPtr kPlain = "http://"_kj, kSecure = "https://"_kj;
constexpr uint16_t kPlainPort = 80, kSecurePort = 443;

bool isScheme(kj::ArrayPtr<const char> text) {
  bool first = true;
  for (char c : text) {
    bool letter = c >= 'a' && c <= 'z';
    bool other = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
    if (!letter && (first || !other)) return false;
    first = false;
  }
  return !first;
}

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

kj::Maybe<GrpcEndpoint> parseGrpcEndpoint(kj::StringPtr text) {
  kj::StringPtr rest = text;
  bool secure = false, https = false;
  KJ_IF_MAYBE (colon, text.findFirst(':')) {
    if (text.slice(*colon).startsWith("://")) {
      auto scheme = text.slice(0, *colon);
      if (!isScheme(scheme)) return nullptr;
      https = text.startsWith(kSecure);
      secure = !text.startsWith("grpc://");
      rest = text.slice(*colon + 3);
    }
  }
  auto authority =
      kj::str(rest.endsWith("/") && rest.size() < text.size() ? rest.slice(0, rest.size() - 1)
                                                              : rest.asArray());
  if (!config::isHostAndPort(authority, !https)) return nullptr;
  auto both = parseHostPort(authority);
  if (both == nullptr) authority = kj::str(authority, ":", kSecurePort);
  return parseHostPort(authority).map([&](HostPort&& at) {
    return GrpcEndpoint{secure, kj::mv(authority), kj::mv(at.host), at.port};
  });
}

}  // namespace talos
