#include "machined/config/trust/client-certificate.h"

#include "common/base/error.h"
#include "common/wire/roles.h"

namespace talos::machined {
namespace {

constexpr size_t kMostRequestBytes = 16 * 1024;
constexpr size_t kMostSignedRoles = 16;

}  // namespace

kj::String signClientCertificate(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                                 kj::ArrayPtr<const char> request,
                                 kj::ArrayPtr<const kj::String> roles, uint64_t lifetimeS,
                                 kj::Date now, kj::StringPtr name) {
  if (request.size() > kMostRequestBytes) {
    fail(ErrorKind::kInvalidArgument, kj::str("a request must have at most ", kMostRequestBytes,
                                              " bytes, not ", request.size()));
  }
  if (roles.size() == 0 || roles.size() > kMostSignedRoles) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("a client must have 1 to ", kMostSignedRoles, " roles, not ", roles.size()));
  }
  checkClientRoles(roles, "roles");
  if (lifetimeS < kShortestLifetimeS || lifetimeS > kLongestLifetimeS) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("a client certificate must be valid for ", kShortestLifetimeS, " s to ",
                 kLongestLifetimeS / 3600, " h, not for ", lifetimeS, " s"));
  }
  auto text = kj::heapString(request);
  auto requested = pki::inspectRequest(text);
  auto left = pki::inspect(authorityCertificate).notAfter - now;
  if (left < int64_t(kShortestLifetimeS) * kj::SECONDS) {
    fail(ErrorKind::kFailedPrecondition,
         "the CA certificate has expired or expires within a minute");
  }
  pki::LeafOptions options;
  options.commonName = name.size() > 0 ? name : requested.commonName;
  options.organizations = KJ_MAP(role, roles) {
    return kj::str(role);
  };
  options.server = false;
  options.lifetime = kj::min(int64_t(lifetimeS) * kj::SECONDS, left);
  return pki::signRequest(authorityCertificate, authorityKey, text, kj::mv(options));
}

}  // namespace talos::machined
