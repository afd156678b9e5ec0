#include "talosctl/images/registry-answers.h"

#include <kj/encoding.h>
#include <strings.h>

#include "common/base/error.h"
#include "common/image-cache/cache-layout.h"
#include "common/kube/json.h"
#include "common/net/http-url.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostShown = 200, kMostParts = 1000;

[[noreturn]] void refusePlace(kj::StringPtr url) {
  // The part before an @ may have a password.
  auto shown = url.findFirst('@') == nullptr ? kj::str("\"", fieldText(url, kMostShown), "\"")
                                             : kj::str("a URL with a user");
  fail(ErrorKind::kInvalidArgument, kj::str(shown, " is not a valid http:// or https:// URL"));
}

}  // namespace

kj::String WebPlace::authority() const {
  bool six = host.findFirst(':') != nullptr, usual = port == (secure ? 443 : 80);
  return kj::str(six ? "[" : "", host, six ? "]" : "", usual ? kj::String() : kj::str(":", port));
}

WebPlace readPlace(kj::StringPtr url) {
  KJ_IF_MAYBE (read, parseHttpUrl(url)) {
    return WebPlace{read->secure, kj::mv(read->host), read->port, kj::mv(read->target)};
  }
  refusePlace(url);
}

WebPlace redirectedPlace(const WebPlace& from, kj::StringPtr location) {
  if (location.startsWith("/") && !location.startsWith("//") && config::isVisible(location)) {
    return WebPlace{from.secure, kj::str(from.host), from.port, kj::str(location)};
  }
  auto place = readPlace(location);
  if (from.secure && !place.secure) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the server redirects from https to ", fieldText(location, kMostShown)));
  }
  return place;
}

kj::Maybe<Challenge> readChallenge(kj::StringPtr header) {
  constexpr kj::StringPtr kBearer = "bearer "_kj, kBasic = "basic"_kj;
  if (strncasecmp(header.cStr(), kBasic.cStr(), kBasic.size()) == 0)
    return Challenge{false, kj::String(), kj::String(), kj::String()};
  if (strncasecmp(header.cStr(), kBearer.cStr(), kBearer.size()) != 0) return nullptr;
  Challenge challenge{true, kj::String(), kj::String(), kj::String()};
  auto rest = header.slice(kBearer.size());
  while (rest.size() > 0) {
    auto equals = rest.findFirst('=').orDefault(rest.size());
    auto name = kj::heapString(rest.slice(0, equals));
    if (equals + 1 >= rest.size() || rest[equals + 1] != '"') break;
    rest = rest.slice(equals + 2);
    auto quote = rest.findFirst('"').orDefault(rest.size());
    auto value = kj::heapString(rest.slice(0, quote));
    rest = rest.slice(kj::min(quote + 1, rest.size()));
    while (rest.size() > 0 && (rest[0] == ',' || rest[0] == ' ')) rest = rest.slice(1);
    if (name == "realm") challenge.realm = kj::mv(value);
    if (name == "service") challenge.service = kj::mv(value);
    if (name == "scope") challenge.scope = kj::mv(value);
  }
  if (challenge.realm.size() == 0) return nullptr;
  return kj::mv(challenge);
}

kj::Maybe<kj::String> credentialsIn(kj::ArrayPtr<const char> dockerConfig, kj::StringPtr registry) {
  auto config = kube::readJson(dockerConfig, "Docker's config.json");
  KJ_DEFER(kube::wipe(config));
  // Docker's own name for its hub.
  auto name = registry == "docker.io" ? "https://index.docker.io/v1/"_kj : registry;
  KJ_IF_MAYBE (entry, kube::find(config, {"auths", name})) {
    auto user = kube::textAt(*entry, {"username"}), password = kube::textAt(*entry, {"password"});
    if (user.size() > 0) return kj::str(user, ":", password);
    auto decoded = kj::decodeBase64(kube::textAt(*entry, {"auth"}).asArray());
    auto text = kj::heapString(decoded.asChars());
    if (text.findFirst(':') != nullptr && config::isVisible(text)) return kj::mv(text);
  }
  return nullptr;
}

namespace {

Descriptor descriptorOf(const kube::Json& value) {
  Descriptor part;
  part.digest = kj::str(kube::textAt(value, {"digest"}));
  if (!imagecache::isDigest(part.digest)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the manifest names \"", fieldText(part.digest, kMostShown),
                 "\", which is not a valid digest"));
  }
  part.size = static_cast<uint64_t>(kj::max(kube::numberAt(value, {"size"}), int64_t(0)));
  auto system = kube::textAt(value, {"platform", "os"}),
       machine = kube::textAt(value, {"platform", "architecture"}),
       variant = kube::textAt(value, {"platform", "variant"});
  if (system.size() > 0) {
    part.platform = kj::str(system, "/", machine, variant.size() > 0 ? "/" : "", variant);
  }
  return part;
}

}  // namespace

Manifest readManifest(kj::ArrayPtr<const char> text) {
  auto value = kube::readJson(text, "the manifest");
  Manifest manifest;
  auto list = "layers"_kj;
  if (kube::find(value, {"manifests"}) != nullptr) {
    manifest.isIndex = true;
    list = "manifests"_kj;
  } else {
    KJ_IF_MAYBE (config, kube::find(value, {"config"})) manifest.parts.add(descriptorOf(*config));
  }
  auto items = kube::itemsAt(value, {list});
  if (items.size() > kMostParts) {
    fail(ErrorKind::kInvalidArgument, kj::str("the manifest has ", items.size(), " ", list,
                                              "; at most ", kMostParts, " are possible"));
  }
  for (auto item : items) manifest.parts.add(descriptorOf(*item));
  if (manifest.parts.empty()) {
    fail(ErrorKind::kInvalidArgument, "the manifest has neither layers nor manifests");
  }
  return manifest;
}

bool isPlatform(kj::StringPtr has, kj::StringPtr wanted) {
  return has == wanted || has.startsWith(kj::str(wanted, "/"));
}

}  // namespace talos::talosctl
