#include "machined/config/trust/api-names.h"

#include <algorithm>

#include "common/wire/roles.h"
#include "machined/config/trust/certificate-renewal.h"

namespace talos::machined {
namespace {

struct Lives {
  pki::CertificateInfo server, client;
};
Lives inspectBoth(rpc::ApiCertificateSpec::Reader stored) {
  return {inspectPair(stored.getServer()), inspectPair(stored.getClient())};
}

}  // namespace

kj::Maybe<kj::StringPtr> whyIssue(rpc::ApiCertificateSpec::Reader stored,
                                  const pki::Authorities& authorities, const NodeNames& names,
                                  kj::Duration lifetime, kj::Date now) {
  auto sent = kj::str(stored.getServer().getCrt().asChars());
  if (stored.getCa() != authorities.trusted.asBytes() ||
      sent != pki::chainOf(sent, authorities.behind)) {
    return "the CA changed"_kj;
  }
  kj::Maybe<kj::StringPtr> reason;
  auto damaged = kj::runCatchingExceptions([&] {
    auto lives = inspectBoth(stored);
    reason = renewalCause(lives.server, names, lifetime, now);
    if (reason != nullptr) return;
    if (lives.client.organizations.size() != 1 ||
        lives.client.organizations[0] != kRoleImpersonator) {
      reason = "the role of the client changed"_kj;
      return;
    }
    reason = renewalCause(lives.client, lifetime, now);
  });
  if (damaged != nullptr) return "they are damaged"_kj;
  return reason;
}

kj::Date halfLife(rpc::ApiCertificateSpec::Reader stored) {
  auto lives = inspectBoth(stored);
  return std::min(talos::halfLife(lives.server), talos::halfLife(lives.client));
}

bool isGoodForMaintenance(rpc::ApiCertificateSpec::Reader stored, const NodeNames& names,
                          kj::Date now) {
  if (!stored.getMaintenance()) return false;
  bool good = false;
  auto damaged = kj::runCatchingExceptions([&] {
    auto info = inspectPair(stored.getServer());
    // The certificate has a common name even if the machine has no name.
    info.commonName = kj::str(names.commonName);
    good = renewalCause(info, names, kDefaultLifetime, now) == nullptr;
  });
  return damaged == nullptr && good;
}

kj::Date maintenanceHalfLife(rpc::ApiCertificateSpec::Reader stored) {
  return talos::halfLife(inspectPair(stored.getServer()));
}

}  // namespace talos::machined
