#include "apid/metrics/metrics-access.h"

#include "common/base/same-secret.h"
#include "common/text/ascii.h"
#include "common/wire/roles.h"

namespace talos::metrics {
namespace {

// Returns the credentials of `Authorization: Bearer …` (RFC 6750); the scheme may be in any case
// (RFC 9110).
kj::Maybe<kj::StringPtr> bearerIn(kj::StringPtr authorization) {
  constexpr size_t kScheme = 7;
  if (authorization.size() <= kScheme) return nullptr;
  if (lowerCase(kj::str(authorization.slice(0, kScheme))) != "bearer ") return nullptr;
  return authorization.slice(kScheme);
}

}  // namespace

bool Settings::operator==(const Settings& other) const {
  return port == other.port && plain == other.plain &&
         kj::StringPtr(token) == kj::StringPtr(other.token);
}

kj::Maybe<kj::String> refusal(const Settings& settings, const Peer& peer,
                              kj::Maybe<kj::StringPtr> authorization) {
  if (settings.plain) return nullptr;
  if (!peer.anonymous && permits(peer.organizations, kRoleReader)) return nullptr;
  KJ_IF_MAYBE (header, authorization) {
    KJ_IF_MAYBE (given, bearerIn(*header)) {
      if (isSameSecret(*given, settings.token)) return nullptr;
    }
  }
  auto needed = kj::str("a client certificate of machine.ca with the role os:reader");
  if (kj::StringPtr(settings.token).size() > 0) {
    needed = kj::str(needed,
                     ", or the header \"Authorization: Bearer\" with the token of "
                     "machine.metrics");
  }
  return kj::str("metrics need ", needed,
                 peer.anonymous ? ""_kj : "; the certificate has no such role"_kj, "\n");
}

}  // namespace talos::metrics
