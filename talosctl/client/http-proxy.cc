#include "talosctl/client/http-proxy.h"

#include <kj/encoding.h>
#include <stdint.h>
#include <string.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"
#include "common/text/ascii.h"
#include "common/text/foreign-text.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kProxyForm = "use http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT"_kj;
constexpr kj::StringPtr kHttpVersion = "HTTP/1."_kj;
constexpr size_t kMostReason = 80;
constexpr uint16_t kPlainPort = 80, kTlsPort = 443;

[[noreturn]] void refuseProxy(kj::StringPtr variable, kj::StringPtr error) {
  fail(ErrorKind::kInvalidArgument, kj::str(variable, ": ", error, "; ", kProxyForm));
}

[[noreturn]] void failAnswer(kj::StringPtr error) {
  fail(ErrorKind::kUnavailable, error);
}

kj::Maybe<uint16_t> portIn(kj::StringPtr text) {
  if (text.size() == 0 || text.size() > 5) return nullptr;
  unsigned port = 0;
  for (char c : text) {
    if (!isDigit(c)) return nullptr;
    port = port * 10 + (c - '0');
  }
  if (port == 0 || port > UINT16_MAX) return nullptr;
  return static_cast<uint16_t>(port);
}

struct HostPort {
  kj::String host, port;  // the host without brackets; the port may be empty
};

// Splits "name:50000", "[fd00::1]:50000", "fd00::1"; a text with several colons and no brackets has
// no port.
HostPort splitPort(kj::StringPtr text) {
  if (text.startsWith("[")) {
    KJ_IF_MAYBE (end, text.findFirst(']')) {
      auto host = kj::heapString(text.slice(1, *end));
      auto rest = text.slice(*end + 1);
      if (rest.size() == 0) return {kj::mv(host), kj::String()};
      if (rest.startsWith(":")) return {kj::mv(host), kj::str(rest.slice(1))};
    }
    return {kj::str(text), kj::String()};
  }
  KJ_IF_MAYBE (colon, text.findFirst(':')) {
    if (text.findLast(':').orDefault(0) == *colon) {
      return {kj::heapString(text.slice(0, *colon)), kj::str(text.slice(*colon + 1))};
    }
  }
  return {kj::str(text), kj::String()};
}

kj::String percentDecoded(kj::StringPtr variable, kj::ArrayPtr<const char> text) {
  auto result = kj::decodeUriComponent(text);
  if (result.hadErrors) {
    refuseProxy(variable, "the user or the password has a % that begins no escape (%25 is a %)");
  }
  return kj::mv(result);
}

// Returns "user:password" of the part of the URL before the @.
kj::String credentialsIn(kj::StringPtr variable, kj::ArrayPtr<const char> text) {
  size_t colon = 0;
  while (colon < text.size() && text[colon] != ':') ++colon;
  auto user = percentDecoded(variable, text.slice(0, colon));
  auto password = colon < text.size() ? percentDecoded(variable, text.slice(colon + 1, text.size()))
                                      : kj::String();
  KJ_DEFER(zeroize(password));
  return kj::str(user, ":", password);
}

// Returns true if one entry of NO_PROXY, in lower case, means the host. `address`: of the host, if
// it is one.
bool excludes(kj::StringPtr entry, kj::StringPtr host, const kj::Maybe<Ip>& address,
              uint16_t port) {
  if (entry == "*") return true;
  KJ_IF_MAYBE (network, Prefix::parse(entry)) {
    KJ_IF_MAYBE (ip, address) return network->contains(*ip);
    return false;
  }
  auto parts = splitPort(entry);
  if (parts.host.size() == 0) return false;
  if (parts.port.size() > 0 && parts.port != kj::str(port)) return false;
  KJ_IF_MAYBE (own, Ip::parse(parts.host)) {
    KJ_IF_MAYBE (ip, address) return own->unmapped() == *ip;
    return false;
  }
  kj::StringPtr name = parts.host;
  if (name.startsWith("*.")) name = name.slice(1);
  if (name.startsWith(".")) return host.endsWith(name);
  return host == name || host.endsWith(kj::str(".", name));
}

bool isHostText(kj::StringPtr host) {
  if (Ip::parse(host) != nullptr) return true;
  for (char c : host) {
    if (c == ':' || c == '[' || c == ']' || c == '%') return false;
  }
  return config::isVisible(host);
}

ProxyAnswer parseStatusLine(kj::ArrayPtr<const char> line) {
  constexpr size_t kVersion = 7, kCode = 9, kReason = 12;  // "HTTP/1.1 200 OK"
  line = trimmed(line);
  bool good = line.size() >= kReason && isDigit(line[kVersion]) && line[kVersion + 1] == ' ' &&
              line[kCode] >= '1' && isDigit(line[kCode]) && isDigit(line[kCode + 1]) &&
              isDigit(line[kCode + 2]) && (line.size() == kReason || line[kReason] == ' ');
  if (!good) failAnswer("its answer has no status of HTTP");
  unsigned status = 0;
  for (char c : line.slice(kCode, kReason)) status = status * 10 + (c - '0');
  return {status, fieldText(trimmed(line.slice(kReason, line.size())), kMostReason)};
}

kj::String connectRequest(const HttpProxy& proxy, kj::StringPtr host, uint16_t port) {
  auto target = hostInUrl(host, port);
  kj::String authorization;
  if (proxy.credentials.size() > 0) {
    auto base64 = kj::encodeBase64(proxy.credentials.asBytes());
    KJ_DEFER(zeroize(base64));
    authorization = kj::str("Proxy-Authorization: Basic ", base64, "\r\n");
  }
  KJ_DEFER(zeroize(authorization));
  return kj::str("CONNECT ", target, " HTTP/1.1\r\nHost: ", target, "\r\nUser-Agent: talosctl\r\n",
                 authorization, "\r\n");
}

kj::String refusalText(const ProxyAnswer& answer, const HttpProxy& proxy, kj::StringPtr target) {
  constexpr unsigned kAuthenticationRequired = 407;
  auto reason = answer.reason.size() > 0 ? kj::str(" ", answer.reason) : kj::String();
  auto text = kj::str("it refuses a connection to ", target, ": ", answer.status, reason);
  if (answer.status != kAuthenticationRequired) return text;
  return proxy.credentials.size() > 0
             ? kj::str(text, "; check the user and the password in ", proxy.variable)
             : kj::str(text, "; set a user and a password: ", proxy.variable,
                       "=http://USER:PASSWORD@HOST:PORT");
}

using TunnelStream = kj::Own<kj::AsyncIoStream>;

kj::Promise<TunnelStream> dialTunnel(DialDependencies deps, const HttpProxy& proxy,
                                     kj::StringPtr host, uint16_t port) {
  auto connection = co_await dialHost(deps, kj::str(proxy.host), proxy.port);
  co_return co_await openTunnel(kj::mv(connection), proxy, host, port);
}

}  // namespace

kj::String HttpProxy::address() const {
  return hostInUrl(host, port);
}

HttpProxy parseProxy(kj::StringPtr variable, kj::StringPtr value) {
  constexpr kj::StringPtr kMark = "://"_kj;
  bool https = false;
  auto rest = value;
  if (auto* mark = strstr(value.cStr(), kMark.cStr()); mark != nullptr) {
    auto length = static_cast<size_t>(mark - value.begin());
    auto scheme = lowerCase(kj::heapString(value.slice(0, length)));
    https = scheme == "https";
    if (!https && scheme != "http") refuseProxy(variable, "the scheme must be http");
    rest = value.slice(length + kMark.size());
  }
  auto authority = kj::heapString(rest.slice(0, strcspn(rest.cStr(), "/?#")));
  KJ_DEFER(zeroize(authority));
  kj::String credentials;
  kj::StringPtr place = authority;
  KJ_IF_MAYBE (at, authority.findLast('@')) {
    credentials = credentialsIn(variable, authority.slice(0, *at));
    place = authority.slice(*at + 1);
  }
  auto parts = splitPort(place);
  if (!isHostText(parts.host)) refuseProxy(variable, "the host is not a valid address or name");
  auto port = https ? kTlsPort : kPlainPort;
  if (parts.port.size() > 0) {
    KJ_IF_MAYBE (given, portIn(parts.port)) {
      port = *given;
    } else {
      refuseProxy(variable, "the port must be 1 to 65535");
    }
  }
  // The original reads https as http, and sends the password.
  if (https && credentials.size() > 0) {
    refuseProxy(variable, "the connection to the proxy has no TLS, so the password is not sent");
  }
  return {variable, kj::mv(parts.host), port, kj::mv(credentials)};
}

bool isReachedDirectly(kj::StringPtr list, kj::StringPtr host, uint16_t port) {
  auto name = lowerCase(host);
  if (name == "localhost") return true;
  kj::Maybe<Ip> address;
  KJ_IF_MAYBE (ip, Ip::parse(host)) {
    address = ip->unmapped();
    if (ip->unmapped().isLoopback()) return true;
  }
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] != ',') continue;
    auto entry = lowerCase(kj::heapString(trimmed(list.slice(begin, i))));
    begin = i + 1;
    if (excludes(entry, name, address, port)) return true;
  }
  return false;
}

kj::Maybe<HttpProxy> proxyFor(kj::Function<kj::Maybe<kj::String>(kj::StringPtr name)>& environment,
                              kj::StringPtr host, uint16_t port) {
  struct Setting {
    kj::StringPtr variable;
    kj::String value;
  };
  auto first = [&](kj::StringPtr upper, kj::StringPtr lower) {
    for (auto variable : {upper, lower}) {
      KJ_IF_MAYBE (value, environment(variable)) {
        if (value->size() > 0) return Setting{variable, kj::mv(*value)};
      }
    }
    return Setting{};
  };
  auto proxy = first("HTTPS_PROXY"_kj, "https_proxy"_kj);
  if (proxy.value.size() == 0) return nullptr;
  if (isReachedDirectly(first("NO_PROXY"_kj, "no_proxy"_kj).value, host, port)) return nullptr;
  return parseProxy(proxy.variable, proxy.value);
}

kj::Maybe<ProxyAnswer> ProxyAnswerReader::add(char c) {
  if (++total > kMostProxyHead) {
    failAnswer(kj::str("its answer is longer than ", kMostProxyHead, " bytes"));
  }
  bool inStatusLine = answer == nullptr;
  if (c != '\n') {
    if (inStatusLine) {
      if (total <= kHttpVersion.size() && c != kHttpVersion[total - 1]) {
        failAnswer("its answer is not HTTP: it may expect TLS, or SOCKS");
      }
      statusLine.add(c);
    }
    if (c != '\r') lineIsEmpty = false;
    return nullptr;
  }
  if (inStatusLine) {
    answer = parseStatusLine(statusLine.asPtr());
  } else if (lineIsEmpty) {
    return kj::mv(answer);
  }
  lineIsEmpty = true;
  return nullptr;
}

kj::Promise<TunnelStream> openTunnel(TunnelStream connection, const HttpProxy& proxy,
                                     kj::StringPtr host, uint16_t port) {
  auto request = connectRequest(proxy, host, port);
  KJ_DEFER(zeroize(request));
  co_await connection->write(request.begin(), request.size());
  ProxyAnswerReader reader;
  for (;;) {
    char c;  // one by one: what follows the head is the tunnel's
    if (co_await connection->tryRead(&c, 1, 1) == 0) {
      failAnswer("it closed the connection without an answer");
    }
    KJ_IF_MAYBE (answer, reader.add(c)) {
      if (answer->status / 100 == 2) co_return kj::mv(connection);
      failAnswer(refusalText(*answer, proxy, hostInUrl(host, port)));
    }
  }
}

kj::Promise<TunnelStream> dialByProxy(DialDependencies deps, const HttpProxy& proxy,
                                      kj::StringPtr host, uint16_t port) {
  return dialTunnel(deps, proxy, host, port)
      .catch_([address = proxy.address()](kj::Exception&& e) -> kj::Promise<TunnelStream> {
        return error(ErrorKind::kUnavailable, kj::str("proxy ", address, ": ", messageOf(e)));
      });
}

}  // namespace talos::talosctl
