#include "talosctl/images/registry-client.h"

#include <kj/compat/http.h>
#include <kj/debug.h>
#include <kj/encoding.h>

#include "common/base/sha256.h"
#include "common/base/within.h"
#include "common/kube/json.h"
#include "common/memory/zeroize.h"
#include "common/net/http-body.h"
#include "common/net/http-header-names.h"
#include "common/text/foreign-text.h"
#include "talosctl/client/http-proxy.h"

namespace talos::talosctl {
namespace {

using imagecache::ImageName;

constexpr auto kRegistrySilence = 60 * kj::SECONDS;
constexpr unsigned kMostRedirects = 5;
constexpr size_t kMostToken = 64u << 10, kPieceOfBlob = 256u << 10, kMostRegistryText = 200;
constexpr kj::StringPtr kAccepted =
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"_kj;

// Returns the host that serves the images of a registry.
kj::StringPtr serverOf(kj::StringPtr registry) {
  return registry == "docker.io" ? "registry-1.docker.io"_kj : registry;
}

kj::String noByteWithin() {
  return kj::str("no answer within ", kRegistrySilence / kj::SECONDS, " s");
}

}  // namespace

struct RegistryClient::HeaderNames : public HttpHeaderNames {
  kj::HttpHeaderId accept = add("Accept"), authorization = add("Authorization"),
                   userAgent = add("User-Agent"), challenge = add("WWW-Authenticate");
};

struct RegistryClient::Answer {
  unsigned status;
  kj::String location, challenge;
  kj::Own<kj::AsyncInputStream> body;  // with its connection
};

RegistryClient::RegistryClient(Dependencies& deps, RegistrySettings given)
    : deps(deps), settings(kj::mv(given)), names(kj::heap<HeaderNames>()) {
  for (auto& mirror : settings.mirrors) {
    auto equals = mirror.findFirst('=').orDefault(0);
    auto registry = kj::heapString(mirror.slice(0, equals));
    if (registry != "*" && !imagecache::isRegistryName(registry)) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("\"", mirror, "\" is not a valid registry mirror; use <registry host>=<URL>"));
    }
    auto place = readPlace(kj::heapString(mirror.slice(equals + 1)));
    while (place.target.endsWith("/"))
      place.target = kj::heapString(place.target.slice(0, place.target.size() - 1));
    bool hasPath = place.target.size() > 0;
    mirrors.add(Mirror{kj::mv(registry), kj::mv(place), hasPath});
  }
}

RegistryClient::~RegistryClient() noexcept(false) {
  for (auto& entry : authorizations) zeroize(entry.value);
  KJ_IF_MAYBE (config, settings.dockerConfig) zeroize(*config);
}

// Works as containerd does: a mirror with a path has the interface at this path, and the parameter
// ns names the registry of the image.
kj::Vector<WebPlace> RegistryClient::placesOf(const ImageName& image, kj::StringPtr kind,
                                              kj::StringPtr reference) {
  auto path = kj::str("/", image.repository, "/", kind, "/", reference);
  kj::Vector<WebPlace> places;
  for (auto& mirror : mirrors) {
    if (mirror.registry != "*" && mirror.registry != image.registry) continue;
    auto& at = mirror.place;
    auto registry = kj::encodeUriComponent(image.registry);
    places.add(
        WebPlace{at.secure, kj::str(at.host), at.port,
                 kj::str(mirror.hasPath ? at.target.asPtr() : "/v2"_kj, path, "?ns=", registry)});
  }
  places.add(readPlace(
      kj::str(settings.insecure ? "http://" : "https://", serverOf(image.registry), "/v2", path)));
  return places;
}

kj::Promise<kj::Own<kj::AsyncIoStream>> RegistryClient::dial(const WebPlace& place) {
  DialDependencies dialing{deps.lowLevel, deps.port, deps.timer};
  kj::Own<kj::AsyncIoStream> stream;
  kj::Maybe<HttpProxy> proxy;
  if (place.secure) proxy = proxyFor(deps.environment, place.host, place.port);
  KJ_IF_MAYBE (p, proxy) {
    stream = co_await dialByProxy(dialing, *p, place.host, place.port);
  } else {
    stream = co_await dialHost(dialing, kj::str(place.host), place.port);
  }
  if (!place.secure) co_return kj::mv(stream);
  if (verifier == nullptr) verifier = kj::heap<TlsVerifier>(settings.authorities);
  co_return co_await KJ_ASSERT_NONNULL(verifier)->connect(kj::mv(stream), place.host);
}

kj::Promise<RegistryClient::Answer> RegistryClient::get(const WebPlace& place,
                                                        kj::StringPtr authorization) {
  auto stream = co_await within(deps.timer, kRegistrySilence, dial(place), noByteWithin(),
                                ErrorKind::kUnavailable);
  auto client = kj::newHttpClient(names->table(), *stream).attach(kj::mv(stream));
  kj::HttpHeaders sent(names->table());
  sent.set(kj::HttpHeaderId::HOST, place.authority());
  sent.set(names->accept, kAccepted);
  sent.set(names->userAgent, "talosctl");
  if (authorization.size() > 0) sent.set(names->authorization, authorization);
  auto request = client->request(kj::HttpMethod::GET, place.target, sent, uint64_t(0));
  auto response = co_await within(deps.timer, kRegistrySilence, kj::mv(request.response),
                                  noByteWithin(), ErrorKind::kUnavailable);
  auto text = [&](kj::HttpHeaderId name) {
    return kj::str(response.headers->get(name).orDefault(""));
  };
  auto location = text(kj::HttpHeaderId::LOCATION), challenge = text(names->challenge);
  co_return Answer{response.statusCode, kj::mv(location), kj::mv(challenge),
                   response.body.attach(kj::mv(client))};
}

// Docker's servers of tokens give one to everybody for public images.
kj::Promise<kj::String> RegistryClient::authorizationFor(const ImageName& image,
                                                         const WebPlace& place,
                                                         Challenge challenge) {
  kj::String basic;
  KJ_DEFER(zeroize(basic));
  // A mirror is no place for the credentials of the registry.
  bool own = place.authority() == serverOf(image.registry);
  KJ_IF_MAYBE (config, settings.dockerConfig) {
    auto found = credentialsIn(*config, own ? kj::str(image.registry) : place.authority());
    KJ_IF_MAYBE (credentials, found) {
      basic = kj::str("Basic ", kj::encodeBase64(credentials->asBytes()));
      zeroize(*credentials);
    }
  }
  if (!challenge.bearer) {
    if (basic.size() == 0)
      fail(ErrorKind::kUnauthenticated, "the registry requires a user and a password");
    co_return kj::str(basic);
  }
  auto scope = challenge.scope.size() > 0 ? kj::mv(challenge.scope)
                                          : kj::str("repository:", image.repository, ":pull");
  auto tokens = readPlace(challenge.realm);
  if (place.secure && !tokens.secure)
    fail(ErrorKind::kUnavailable, "the registry's server of tokens has no https");
  tokens.target = kj::str(tokens.target, tokens.target.findFirst('?') == nullptr ? "?" : "&",
                          "service=", kj::encodeUriComponent(challenge.service),
                          "&scope=", kj::encodeUriComponent(scope));
  auto answer = co_await get(tokens, basic);
  if (answer.status != 200) {
    fail(ErrorKind::kUnauthenticated,
         kj::str("the registry's server of tokens answered ", answer.status));
  }
  auto body = co_await within(deps.timer, kRegistrySilence,
                              readBody(*answer.body, kMostToken, kj::str("the token is too long")),
                              noByteWithin());
  KJ_DEFER(zeroize(body));
  auto value = kube::readJson(body, "the answer of the server of tokens");
  KJ_DEFER(kube::wipe(value));
  auto token = kube::textAt(value, {"token"});
  if (token.size() == 0) token = kube::textAt(value, {"access_token"});
  for (unsigned char c : token) {
    if (c <= ' ' || c >= 0x7f) token = ""_kj;
  }
  if (token.size() == 0) fail(ErrorKind::kUnavailable, "the server of tokens sent no token");
  co_return kj::str("Bearer ", token);
}

// Follows redirects and, once, a demand for credentials.
kj::Promise<RegistryClient::Answer> RegistryClient::askAt(const ImageName& image,
                                                          const WebPlace& first) {
  auto key = kj::str(first.authority(), " ", image.repository);
  WebPlace place{first.secure, kj::str(first.host), first.port, kj::str(first.target)};
  bool asked = false;
  for (unsigned i = 0; i <= kMostRedirects; ++i) {
    bool own = place.secure == first.secure && place.authority() == first.authority();
    kj::String authorization;
    KJ_DEFER(zeroize(authorization));
    if (own) {
      KJ_IF_MAYBE (known, authorizations.find(key)) authorization = kj::str(*known);
    }
    auto answer = co_await get(place, authorization);
    if (answer.status / 100 == 3 && answer.location.size() > 0) {
      place = redirectedPlace(place, answer.location);
      continue;
    }
    if (answer.status != 401 || !own || asked) co_return kj::mv(answer);
    asked = true;
    KJ_IF_MAYBE (challenge, readChallenge(answer.challenge)) {
      auto fresh = co_await authorizationFor(image, first, kj::mv(*challenge));
      authorizations.upsert(kj::str(key), kj::mv(fresh), [](kj::String& old, kj::String&& value) {
        zeroize(old);
        old = kj::mv(value);
      });
    } else {
      co_return kj::mv(answer);
    }
  }
  fail(ErrorKind::kUnavailable,
       kj::str("the server redirects more than ", kMostRedirects, " times"));
}

// A mirror that lacks the image, or does not answer, is passed over.
kj::Promise<RegistryClient::Answer> RegistryClient::ask(const ImageName& image, kj::StringPtr kind,
                                                        kj::StringPtr reference) {
  kj::Vector<kj::String> problems;
  for (auto& place : placesOf(image, kind, reference)) {
    kj::Maybe<Answer> found;
    kj::Maybe<kj::Exception> failure;
    co_await askAt(image, place)
        .then([&](Answer&& answer) { found = kj::mv(answer); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      problems.add(kj::str(place.authority(), ": ", fieldText(messageOf(*e), kMostRegistryText)));
      continue;
    }
    auto& answer = KJ_ASSERT_NONNULL(found);
    if (answer.status == 200) co_return kj::mv(answer);
    auto why = answer.status == 404   ? kj::str("has no such image")
               : answer.status == 401 ? kj::str("requires credentials")
                                      : kj::str("answered ", answer.status);
    problems.add(kj::str(place.authority(), " ", why));
  }
  fail(ErrorKind::kUnavailable, kj::strArray(problems, "; "));
}

kj::Promise<kj::Array<char>> RegistryClient::manifest(const ImageName& image,
                                                      kj::StringPtr reference) {
  auto wanted = kj::str(reference);
  auto answer = co_await ask(image, "manifests", wanted);
  auto body = co_await within(
      deps.timer, kRegistrySilence,
      readBody(*answer.body, imagecache::kMostManifest,
               kj::str("the manifest is larger than ", imagecache::kMostManifest >> 20, " MiB")),
      noByteWithin());
  if (imagecache::isDigest(wanted)) {
    Sha256 sum;
    sum.add(body.asBytes());
    if (kj::str("sha256:", sum.hex()) != wanted)
      fail(ErrorKind::kUnavailable, kj::str("the manifest does not have the digest ", wanted));
  }
  co_return kj::mv(body);
}

kj::Promise<void> RegistryClient::blob(const ImageName& image, const Descriptor& blob,
                                       kj::Function<void(kj::ArrayPtr<const kj::byte>)> sink) {
  auto answer = co_await ask(image, "blobs", blob.digest);
  auto piece = kj::heapArray<kj::byte>(kPieceOfBlob);
  Sha256 sum;
  uint64_t size = 0;
  for (;;) {
    auto read = co_await within(deps.timer, kRegistrySilence,
                                answer.body->tryRead(piece.begin(), 1, piece.size()),
                                noByteWithin(), ErrorKind::kUnavailable);
    if (read == 0) break;
    size += read;
    if (size > blob.size) break;
    auto part = piece.slice(0, read);
    sum.add(part);
    sink(part);
  }
  if (size != blob.size || kj::str("sha256:", sum.hex()) != blob.digest) {
    fail(ErrorKind::kUnavailable,
         kj::str("what the registry sent does not have the digest ", blob.digest));
  }
}

}  // namespace talos::talosctl
