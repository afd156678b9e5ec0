#include "common/tls/authorities.h"

#include "common/tls/pki.h"
#include "common/tls/public-key.h"

namespace talos::pki {

kj::Vector<kj::String> blocksIn(kj::StringPtr pem, kj::StringPtr label) {
  auto start = kj::str("-----BEGIN ", label, "-----"), end = kj::str("-----END ", label, "-----");
  kj::Vector<kj::String> result;
  kj::Maybe<size_t> begin;
  for (size_t i = 0; i + end.size() <= pem.size(); ++i) {
    if (pem[i] != '-') continue;
    auto rest = pem.slice(i);
    if (rest.startsWith(start)) begin = i;
    if (!rest.startsWith(end)) continue;
    KJ_IF_MAYBE (from, begin) {
      result.add(kj::str(pem.slice(*from, i + end.size()), "\n"));
      begin = nullptr;
    }
  }
  return result;
}

kj::Vector<kj::String> certificatesIn(kj::StringPtr pem) {
  return blocksIn(pem, "CERTIFICATE"_kj);
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

kj::String chainOf(kj::StringPtr certificate, kj::StringPtr behind) {
  auto all = certificatesIn(certificate);
  return kj::str(all.empty() ? ""_kj : kj::StringPtr(all[0]), behind);
}

bool isSignedByAny(kj::StringPtr certificate, kj::StringPtr authorities) {
  for (auto& authority : certificatesIn(authorities)) {
    if (isSignedBy(certificate, authority)) return true;
  }
  return false;
}

}  // namespace talos::pki
