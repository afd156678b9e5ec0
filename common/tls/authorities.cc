#include "common/tls/authorities.h"

#include "common/tls/pki.h"
#include "common/tls/public-key.h"

namespace talos::pki {

kj::Vector<kj::String> certificatesIn(kj::StringPtr pem) {
  constexpr auto kBegin = "-----BEGIN CERTIFICATE-----"_kj, kEnd = "-----END CERTIFICATE-----"_kj;
  kj::Vector<kj::String> result;
  kj::Maybe<size_t> begin;
  for (size_t i = 0; i + kEnd.size() <= pem.size(); ++i) {
    if (pem[i] != '-') continue;
    auto rest = pem.slice(i);
    if (rest.startsWith(kBegin)) begin = i;
    if (!rest.startsWith(kEnd)) continue;
    KJ_IF_MAYBE (from, begin) {
      result.add(kj::str(pem.slice(*from, i + kEnd.size()), "\n"));
      begin = nullptr;
    }
  }
  return result;
}

Authorities authoritiesOf(kj::StringPtr ca, kj::StringPtr accepted) {
  auto others = certificatesIn(accepted);
  if (others.empty()) return {kj::str(ca), {}};
  kj::Maybe<kj::String> own;
  if (ca.size() > 0) own = fingerprint(ca);
  kj::Vector<kj::String> trusted, behind;
  for (auto& other : others) {
    auto key = fingerprint(other);
    bool forOwnKey = false;
    KJ_IF_MAYBE (mine, own) forOwnKey = key == *mine;
    if (!forOwnKey) {
      trusted.add(kj::mv(other));
    } else if (!sameCertificate(other, ca)) {
      behind.add(kj::mv(other));
    }
  }
  auto separator = ca.size() > 0 && !ca.endsWith("\n") && !trusted.empty() ? "\n"_kj : ""_kj;
  return {kj::str(ca, separator, kj::strArray(trusted, "")), kj::strArray(behind, "")};
}

bool isSignedByAny(kj::StringPtr certificate, kj::StringPtr authorities) {
  for (auto& authority : certificatesIn(authorities)) {
    if (isSignedBy(certificate, authority)) return true;
  }
  return false;
}

}  // namespace talos::pki
