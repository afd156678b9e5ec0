#include "manifestd/manifest-source.h"

#include "common/base/error.h"
#include "common/base/sha256.h"
#include "common/base/url-secrets.h"
#include "common/kube/json-yaml.h"

namespace talos::manifestd {
namespace {

constexpr kj::StringPtr kSha256 = "sha256:"_kj;
constexpr size_t kIdDigits = 8;

[[noreturn]] void refuseUrl(kj::StringPtr url, kj::StringPtr error) {
  fail(ErrorKind::kInvalidArgument, kj::str("\"", shownUrl(url), "\" ", error));
}

bool isDigest(kj::StringPtr hex) {
  if (hex.size() != 2 * Sha256::kBytes) return false;
  for (char c : hex) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

void takeChecksum(ManifestSource& source, kj::StringPtr text) {
  kj::Vector<kj::Url::QueryParam> rest;
  for (auto& parameter : source.url.query) {
    if (parameter.name != "checksum") {
      rest.add(kj::mv(parameter));
      continue;
    }
    auto digest = parameter.value.startsWith(kSha256)
                      ? kj::str(parameter.value.slice(kSha256.size()))
                      : kj::String();
    if (!isDigest(digest)) {
      refuseUrl(text, "has no valid checksum; use checksum=sha256:<64 digits of hex>");
    }
    source.sha256 = kj::mv(digest);
  }
  source.url.query = kj::mv(rest);
}

void requireWeb(const kj::Url& url, kj::StringPtr text) {
  if ((url.scheme != "http" && url.scheme != "https") || url.host.size() == 0) {
    refuseUrl(text, "is not a valid URL of a manifest; use http:// or https://");
  }
}

// KJ decodes "%2e" into a part of the path that it refuses to encode again.
void requirePath(const kj::Url& url, kj::StringPtr text) {
  for (auto& part : url.path) {
    if (part == "." || part == "..") {
      refuseUrl(text, "has \".\" or \"..\" percent-encoded in its path");
    }
  }
}

kj::String asList(kj::Vector<kube::Json> documents) {
  auto list = kube::Json::array();
  for (auto& document : documents) list.push_back(kj::mv(document));
  KJ_DEFER(kube::wipe(list));
  return kube::writeYaml(list);
}

// Returns the part of "host:port" or "[fd00::1]:port" after the last colon that is not part of an
// address.
size_t portAt(kj::StringPtr host) {
  auto bracket = host.findLast(']').map([](size_t at) { return at + 1; }).orDefault(0);
  return host.slice(bracket)
      .findFirst(':')
      .map([&](size_t at) { return at + bracket; })
      .orDefault(host.size());
}

ManifestSource readPlace(kj::StringPtr text) {
  auto parsed = kj::Url::tryParse(kj::str(text), kj::Url::REMOTE_HREF);
  KJ_IF_MAYBE (url, parsed) {
    requireWeb(*url, text);
    requirePath(*url, text);
    if (url->userInfo != nullptr) {
      refuseUrl(text, "has a user name; use cluster.extraManifestHeaders to log in");
    }
    ManifestSource source{kj::mv(*url), nullptr, nullptr};
    source.url.fragment = nullptr;
    if (source.port() == 0 || source.host().size() == 0) {
      refuseUrl(text, "has no valid host and port");
    }
    // Percent-encodes again: a decoded path may contain "?" or control characters.
    auto plain = source.url.clone();
    plain.query.clear();
    source.shown = plain.toString();
    return source;
  }
  refuseUrl(text, "is not a valid URL of a manifest; use http:// or https://");
}

}  // namespace

kj::String shownUrl(kj::StringPtr url) {
  auto shown = withoutUrlPasswords(url);
  size_t end = 0;
  while (end < shown.size() && shown[end] != '?' && shown[end] != '#') ++end;
  return kj::heapString(shown.slice(0, end));
}

kj::String manifestId(kj::StringPtr priority, kj::StringPtr url) {
  auto shown = shownUrl(url);
  if (shown == url) return kj::str(priority, "-", shown);
  Sha256 digest;
  digest.add(url.asBytes());
  return kj::str(priority, "-", shown, "-", digest.hex().slice(0, kIdDigits));
}

kj::String ManifestSource::host() const {
  auto name = kj::heapString(url.host.slice(0, portAt(url.host)));
  if (!name.startsWith("[")) return name;
  // An address without its closing bracket, as a redirect may have it, is not a host.
  if (name.size() < 2 || !name.endsWith("]")) return nullptr;
  return kj::heapString(name.slice(1, name.size() - 1));
}

uint16_t ManifestSource::port() const {
  auto at = portAt(url.host);
  if (at == url.host.size()) return secure() ? 443 : 80;
  return url.host.slice(at + 1).tryParseAs<uint16_t>().orDefault(0);
}

kj::String ManifestSource::target() const {
  return url.toString(kj::Url::HTTP_REQUEST);
}

ManifestSource readSource(kj::StringPtr text) {
  auto source = readPlace(text);
  takeChecksum(source, text);
  return source;
}

ManifestSource redirected(const ManifestSource& from, kj::StringPtr location) {
  auto next = from.url.tryParseRelative(location);
  KJ_IF_MAYBE (url, next) {
    url->fragment = nullptr;
    requirePath(*url, location);
    auto source = readPlace(url->toString());
    if (from.secure() && !source.secure()) {
      refuseUrl(source.shown, "is a redirect from https to http");
    }
    source.sha256 = from.sha256.map([](const kj::String& hex) { return kj::str(hex); });
    return source;
  }
  fail(ErrorKind::kInvalidArgument, "the server redirects to a location that is not a URL");
}

kj::String readManifest(const ManifestSource& from, kj::ArrayPtr<const char> body) {
  KJ_IF_MAYBE (wanted, from.sha256) {
    Sha256 digest;
    digest.add(body.asBytes());
    auto found = digest.hex();
    if (found != *wanted) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("its SHA-256 is ", found, ", not ", *wanted, " as the checksum says"));
    }
  }
  return asList(kube::readYaml(body, from.shown));
}

kj::String readInlineManifest(kj::StringPtr name, kj::StringPtr contents) {
  return asList(kube::readYaml(contents, name));
}

}  // namespace talos::manifestd
