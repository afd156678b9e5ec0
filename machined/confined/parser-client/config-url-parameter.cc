#include "machined/confined/parser-client/config-url-parameter.h"

#include <kj/compat/url.h>
#include <kj/encoding.h>
#include <string.h>

#include "common/base/error.h"
#include "common/tls/pki.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kRight =
    "; use http://<host>[:<port>]/<path>, https://…, file:///<path>, metal-iso, guestinfo, or none"_kj;

[[noreturn]] void refuseParameter(kj::StringPtr problem) {
  fail(ErrorKind::kInvalidArgument, problem);
}

kj::Url::Options asItIs() {
  kj::Url::Options options;
  options.percentDecode = false;
  options.allowEmpty = true;
  return options;
}

bool isName(kj::StringPtr host) {
  bool good = host.size() > 0 && host.size() <= 253;
  for (char c : host) {
    good = good && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '.' || c == '_');
  }
  return good;
}

bool isAddressText(kj::StringPtr host) {
  bool good = host.findFirst(':') != nullptr;
  for (char c : host) {
    good = good && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') ||
                    c == ':' || c == '.');
  }
  return good;
}

// "a:80", "[::1]:80", "a", "[::1]" -> host and port.
void splitAuthority(kj::StringPtr authority, HttpSource& out) {
  kj::StringPtr rest;
  if (authority.startsWith("[")) {
    size_t close = KJ_UNWRAP_OR(authority.findFirst(']'), refuseParameter("\"]\" is missing"));
    out.host = kj::heapString(authority.slice(1, close));
    rest = authority.slice(close + 1);
    if (!isAddressText(out.host)) {
      refuseParameter(kj::str("\"", out.host, "\" is not a valid IPv6 address"));
    }
  } else {
    size_t colon = authority.findLast(':').orDefault(authority.size());
    out.host = kj::heapString(authority.slice(0, colon));
    rest = authority.slice(colon);
    if (!isName(out.host)) {
      refuseParameter(kj::str("\"", out.host, "\" is neither a host name nor an address"));
    }
  }
  out.port = out.secure ? 443 : 80;
  if (rest.size() > 0) {
    auto port = rest.startsWith(":") ? rest.slice(1).tryParseAs<uint16_t>() : nullptr;
    out.port = KJ_UNWRAP_OR(port, refuseParameter("the port must be 1 to 65535"));
    if (out.port == 0) refuseParameter("the port must be 1 to 65535");
  }
}

HttpSource httpSource(kj::Url url) {
  HttpSource source;
  source.secure = url.scheme == "https";
  if (url.userInfo != nullptr) {
    refuseParameter(
        "a user name in the URL is not supported, because the kernel command line is readable by "
        "all");
  }
  splitAuthority(url.host, source);
  source.authority = kj::str(url.host);
  url.fragment = nullptr;
  source.target = url.toString(kj::Url::HTTP_REQUEST);
  if (!source.target.startsWith("/")) source.target = kj::str("/", source.target);
  for (char c : source.target) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) {
      refuseParameter("the URL contains a blank or control character");
    }
  }
  url.query.clear();
  source.shown = url.toString(kj::Url::HTTP_PROXY_REQUEST);
  return source;
}

bool isHttp(const kj::Url& url) {
  return url.scheme == "http" || url.scheme == "https";
}

kj::String valueOf(kj::StringPtr name, const UrlVariables& variables) {
  struct Row {
    kj::StringPtr name;
    const kj::String& value;
  };
  const Row rows[] = {{"uuid", variables.uuid},
                      {"serial", variables.serial},
                      {"mac", variables.mac},
                      {"hostname", variables.hostname}};
  for (auto& row : rows) {
    if (strcasecmp(row.name.cStr(), name.cStr()) != 0) continue;
    if (row.value.size() == 0) {
      fail(ErrorKind::kUnavailable, kj::str("${", row.name, "} of this machine is not known"));
    }
    return kj::encodeUriComponent(row.value);
  }
  refuseParameter(kj::str("\"${", name, "}\" is not a variable; use ${uuid}, ${serial}, ${mac} or ",
                          "${hostname}"));
}

// Returns a query's value with its variables replaced.
kj::String filled(kj::StringPtr value, const UrlVariables& variables) {
  kj::Vector<kj::String> parts;
  while (value.size() > 0) {
    size_t begin = 0;
    while (begin < value.size() && !value.slice(begin).startsWith("${")) ++begin;
    parts.add(kj::str(value.slice(0, begin)));
    value = value.slice(begin);
    if (value.size() == 0) break;
    size_t end = KJ_UNWRAP_OR(value.findFirst('}'), refuseParameter("\"${\" without a \"}\""));
    parts.add(valueOf(kj::heapString(value.slice(strlen("${"), end)), variables));
    value = value.slice(end + 1);
  }
  return kj::strArray(parts, "");
}

Source parse(kj::StringPtr text, const UrlVariables& variables) {
  if (text == "metal-iso") return VolumeSource{kj::str(text)};
  if (text == "guestinfo") return GuestInfoSource();
  if (text.startsWith("file://")) {
    auto path = text.slice(7);
    if (!path.startsWith("/") || path.endsWith("/"))
      refuseParameter("not an absolute path of a file");
    return FileSource{kj::str(path), kj::str(text)};
  }
  KJ_IF_MAYBE (url, kj::Url::tryParse(text, kj::Url::REMOTE_HREF, asItIs())) {
    if (!isHttp(*url))
      refuseParameter(kj::str("the scheme \"", url->scheme, "\" is not supported"));
    for (auto& q : url->query) {
      bool machine = q.name == "uuid" && q.value.size() == 0;
      if (!machine && q.value.size() == 0) continue;
      q.value = filled(machine ? "${uuid}"_kj : q.value.asPtr(), variables);
    }
    return httpSource(kj::mv(*url));
  }
  refuseParameter("not a valid URL");
}

// Returns the parameter for messages: without user, password, query and fragment. It may not be a
// URL.
kj::String withoutSecrets(kj::StringPtr given) {
  auto text = given.slice(0, strcspn(given.cStr(), "?#"));
  size_t host = 0;
  for (size_t i = 0; i + 2 <= text.size() && host == 0; ++i) {
    if (text[i] == '/' && text[i + 1] == '/') host = i + 2;
  }
  size_t begin = host;
  for (size_t i = host; i < text.size() && text[i] != '/'; ++i) {
    if (text[i] == '@') begin = i + 1;
  }
  return kj::str(text.slice(0, host), text.slice(begin, text.size()));
}

}  // namespace

kj::Maybe<Source> configSource(const KernelArguments& arguments, const UrlVariables& variables) {
  auto text = arguments.first("talos.config").orDefault("");
  if (text == nullptr || text == "none") return nullptr;
  kj::Maybe<Source> source;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { source = parse(text, variables); })) {
    auto problem =
        kj::str("kernel parameter talos.config=", withoutSecrets(text), ": ", messageOf(*e));
    if (kindOf(*e) == ErrorKind::kUnavailable) fail(ErrorKind::kUnavailable, problem);
    refuseParameter(kj::str(problem, kRight));
  }
  return source;
}

HttpSource httpUrl(kj::StringPtr text) {
  KJ_IF_MAYBE (url, kj::Url::tryParse(text, kj::Url::REMOTE_HREF, asItIs())) {
    if (isHttp(*url)) return httpSource(kj::mv(*url));
  }
  refuseParameter("not a valid http or https URL");
}

HttpSource redirected(const HttpSource& from, kj::StringPtr location) {
  auto base =
      kj::Url::parse(kj::str(from.secure ? "https://" : "http://", from.authority, from.target),
                     kj::Url::REMOTE_HREF, asItIs());
  auto shown = withoutSecrets(location);
  KJ_IF_MAYBE (url, base.tryParseRelative(location)) {
    if (!isHttp(*url))
      refuseParameter(kj::str("redirected to ", shown, ", which is neither http nor https"));
    if (from.secure && url->scheme == "http") {
      refuseParameter(kj::str("redirected from https to ", shown, ", which is not followed"));
    }
    kj::Maybe<HttpSource> to;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { to = httpSource(kj::mv(*url)); })) {
      refuseParameter(kj::str("redirected to ", shown, ": ", messageOf(*e)));
    }
    return kj::mv(KJ_ASSERT_NONNULL(to));
  }
  refuseParameter(kj::str("redirected to \"", shown, "\", which is not a valid URL"));
}

kj::Maybe<kj::String> configAuthorities(const KernelArguments& arguments) {
  kj::Vector<kj::String> found;
  unsigned number = 0;
  for (auto value : arguments.all("talos.config.ca")) {
    ++number;
    auto wrong = [&](kj::StringPtr problem) {
      refuseParameter(kj::str("kernel parameter talos.config.ca, number ", number, ": ", problem,
                              "; use the base64 of a certificate, in DER or PEM"));
    };
    auto bytes = kj::decodeBase64(value);
    if (bytes.hadErrors || bytes.size() == 0) wrong("not valid base64");
    auto text = kj::heapString(bytes.asChars());
    auto pem = text.startsWith("-----BEGIN")
                   ? kj::mv(text)
                   : kj::str("-----BEGIN CERTIFICATE-----\n", kj::encodeBase64(bytes, true),
                             "-----END CERTIFICATE-----\n");
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { pki::inspect(pem); })) wrong(messageOf(*e));
    found.add(pem.endsWith("\n") ? kj::mv(pem) : kj::str(pem, "\n"));
  }
  if (found.empty()) return nullptr;
  return kj::strArray(found, "");
}

}  // namespace talos::machined
