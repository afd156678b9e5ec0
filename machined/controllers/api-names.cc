#include "machined/controllers/api-names.h"

#include <algorithm>

#include "common/ip.h"
#include "common/pki.h"
#include "common/roles.h"
#include "machined/controllers/network-plan.h"

namespace talos::machined {
namespace {

void tidy(kj::Vector<kj::String>& list) {
  std::sort(list.begin(), list.end());
  kj::Vector<kj::String> unique;
  for (auto& text : list) {
    if (unique.empty() || unique.back() != text) unique.add(kj::mv(text));
  }
  list = kj::mv(unique);
}

bool same(kj::ArrayPtr<const kj::String> sorted, kj::Vector<kj::String> others) {
  tidy(others);
  return std::equal(sorted.begin(), sorted.end(), others.begin(), others.end());
}

kj::String textOf(capnp::Data::Reader pem) {
  return kj::str(pem.asChars());
}

struct Lives {
  pki::CertificateInfo server, client;
};
Lives inspectBoth(rpc::ApiCertificateSpec::Reader stored) {
  return {pki::inspect(textOf(stored.getServer().getCrt())),
          pki::inspect(textOf(stored.getClient().getCrt()))};
}

kj::Date halfOf(const pki::CertificateInfo& info) {
  return info.notBefore + (info.notAfter - info.notBefore) / 2;
}

}  // namespace

ApiNames apiNames(kj::StringPtr hostname, kj::StringPtr domain,
                  kj::ArrayPtr<const kj::String> nodeAddresses,
                  kj::ArrayPtr<const kj::String> certSans) {
  ApiNames names;
  auto add = [&](kj::StringPtr text) {
    KJ_IF_MAYBE (ip, Ip::parse(text)) {
      if (!ip->isAny()) names.addresses.add(ip->toString());
    } else if (hostnameProblem(text) == nullptr) {
      names.dns.add(kj::str(text));
    }
  };
  for (auto text : {"localhost"_kj, "127.0.0.1"_kj, "::1"_kj}) add(text);
  if (hostname.size() > 0) {
    add(hostname);
    names.commonName = domain.size() > 0 ? kj::str(hostname, ".", domain) : kj::str(hostname);
    if (domain.size() > 0) add(names.commonName);
  }
  for (auto& address : nodeAddresses) add(address);
  for (auto& san : certSans) add(san);
  tidy(names.dns);
  tidy(names.addresses);
  return names;
}

kj::Maybe<kj::StringPtr> whyIssue(rpc::ApiCertificateSpec::Reader stored, kj::StringPtr authority,
                                  const ApiNames& names, kj::Date now) {
  if (stored.getCa().asChars() != authority.asArray()) return "the authority is another one"_kj;
  kj::Maybe<kj::StringPtr> reason;
  auto damaged = kj::runCatchingExceptions([&] {
    auto lives = inspectBoth(stored);
    if (lives.server.commonName != names.commonName ||
        !same(names.dns, kj::mv(lives.server.dnsNames)) ||
        !same(names.addresses, kj::mv(lives.server.addresses))) {
      reason = "the names of this node have changed"_kj;
    } else if (lives.client.organizations.size() != 1 ||
               lives.client.organizations[0] != kRoleImpersonator) {
      reason = "the client's role is another one"_kj;
    } else if (now >= halfOf(lives.server) || now >= halfOf(lives.client)) {
      reason = "half of their life is over"_kj;
    } else if (now < lives.server.notBefore || now < lives.client.notBefore) {
      reason = "they are not valid yet: the clock was set back"_kj;
    }
  });
  if (damaged != nullptr) return "they cannot be read"_kj;
  return reason;
}

kj::Date halfLife(rpc::ApiCertificateSpec::Reader stored) {
  auto lives = inspectBoth(stored);
  return std::min(halfOf(lives.server), halfOf(lives.client));
}

bool isGoodForMaintenance(rpc::ApiCertificateSpec::Reader stored, const ApiNames& names,
                          kj::Date now) {
  if (!stored.getMaintenance()) return false;
  bool good = false;
  auto damaged = kj::runCatchingExceptions([&] {
    auto info = pki::inspect(textOf(stored.getServer().getCrt()));
    good = same(names.dns, kj::mv(info.dnsNames)) &&
           same(names.addresses, kj::mv(info.addresses)) && now < halfOf(info) &&
           now >= info.notBefore;
  });
  return damaged == nullptr && good;
}

kj::Date maintenanceHalfLife(rpc::ApiCertificateSpec::Reader stored) {
  return halfOf(pki::inspect(textOf(stored.getServer().getCrt())));
}

}  // namespace talos::machined
