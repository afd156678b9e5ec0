// machine.registries: mirrors, TLS and credentials.

#include <kj/encoding.h>

#include <set>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/config/rules/config-check.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"
#include "common/tls/pki.h"

namespace talos::config {
namespace {

void checkRegistryName(Report& report, kj::StringPtr path, kj::StringPtr name, bool wildcard) {
  if ((wildcard && name == "*") || isHostAndPort(name, false)) return;
  auto parsed = parseEndpoint(name);
  bool url = parsed.problem.size() == 0;
  report.error(path, kj::str("\"", name, "\" is not a valid registry host"),
               url        ? "leave out the scheme and the path"
               : wildcard ? "for example docker.io, registry.example.org:5000, or * for all others"
                          : "for example registry.example.org:5000");
}

void checkPem(Report& report, kj::StringPtr path, capnp::Data::Reader pem) {
  auto certificate = kj::heapString(pem.asChars());
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { pki::inspect(certificate); })) {
    report.error(path, messageOf(*e), "use the base64 of a certificate in PEM");
  }
}

void checkIdentity(Report& report, kj::StringPtr path, CertificateAndKey::Reader identity) {
  if (identity.getCrt().size() == 0) {
    report.error(kj::str(path, ".crt"), kj::str("the certificate is missing"));
    return;
  }
  if (identity.getKey().size() == 0) {
    report.error(kj::str(path, ".key"), kj::str("the certificate's private key is missing"));
    return;
  }
  auto certificate = kj::heapString(identity.getCrt().asChars());
  pki::Pem key(kj::heapString(identity.getKey().asChars()));
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { pki::checkPair(certificate, key); })) {
    report.error(path, messageOf(*e));
  }
}

void checkAuth(Report& report, kj::StringPtr path, RegistryAuth::Reader auth) {
  bool user = auth.getUsername().size() > 0, password = auth.getPassword().size() > 0;
  if (user != password) {
    report.error(path, kj::str("username or password is missing; set both"));
  }
  if (!user && !password && auth.getAuth().size() == 0 && auth.getIdentityToken().size() == 0) {
    report.warn(path, kj::str("credentials are missing; the registry is used without"),
                "set username and password, identityToken, or auth");
  }
  if (auth.getAuth().size() == 0) return;
  auto decoded = kj::decodeBase64(auth.getAuth());
  KJ_DEFER(zeroize(decoded.asChars()));
  bool colon = false;
  for (auto byte : decoded) colon = colon || byte == ':';
  if (decoded.hadErrors || !colon)
    report.error(kj::str(path, ".auth"), kj::str("not the base64 of user:password"));
}

// host[:port] of URLs, by scheme.
struct Endpoints {
  std::set<std::string> plain, secure;
};

void checkMirrors(Report& report, Registries::Reader registries, Endpoints& endpoints) {
  for (auto mirror : registries.getMirrors()) {
    auto path = keyPath("machine.registries.mirrors", mirror.getKey());
    checkRegistryName(report, path, mirror.getKey(), true);
    size_t i = 0;
    for (auto url : mirror.getValue().getEndpoints()) {
      report.url(kj::str(path, ".endpoints[", i++, "]"), url);
      auto parsed = parseEndpoint(url);
      if (parsed.problem.size() > 0) continue;
      auto name = hostInUrl(parsed.value.host);
      KJ_IF_MAYBE (port, parsed.value.port) name = kj::str(name, ":", *port);
      (parsed.value.scheme == "http" ? endpoints.plain : endpoints.secure).insert(name.cStr());
    }
  }
}

}  // namespace

void checkRegistries(Report& report, Registries::Reader registries) {
  Endpoints endpoints;
  checkMirrors(report, registries, endpoints);
  for (auto entry : registries.getConfig()) {
    auto path = keyPath("machine.registries.config", entry.getKey());
    checkRegistryName(report, path, entry.getKey(), false);
    auto config = entry.getValue();
    if (config.hasTls()) {
      auto place = kj::str(path, ".tls");
      if (endpoints.plain.count(entry.getKey().cStr()) > 0 &&
          endpoints.secure.count(entry.getKey().cStr()) == 0) {
        report.laterError(place, kj::str("the endpoint of this host is not an https URL"));
      }
      auto tls = config.getTls();
      if (tls.hasClientIdentity())
        checkIdentity(report, kj::str(place, ".clientIdentity"), tls.getClientIdentity());
      if (tls.getCa().size() > 0) checkPem(report, kj::str(place, ".ca"), tls.getCa());
    }
    if (config.hasAuth()) checkAuth(report, kj::str(path, ".auth"), config.getAuth());
  }
}

}  // namespace talos::config
