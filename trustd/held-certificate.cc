#include "trustd/held-certificate.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/net/ip.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "common/tls/signature.h"

namespace talos::trustd {
namespace {

[[noreturn]] void refuse(kj::StringPtr error) {
  fail(ErrorKind::kUnauthenticated, error);
}

kj::String firstCertificate(kj::ArrayPtr<const kj::byte> pem) {
  if (pem.size() > kMostHeldBytes) {
    refuse(kj::str("it has ", pem.size(), " bytes; at most ", kMostHeldBytes));
  }
  auto all = pki::certificatesIn(kj::heapString(pem.asChars()));
  if (all.empty()) refuse("it is not a certificate in PEM");
  return kj::mv(all[0]);
}

bool signedBy(kj::StringPtr certificate, const HeldCertificate& held, kj::StringPtr message) {
  if (held.signature.size() > kMostSignatureBytes) return false;
  bool good = false;
  // A key of a type that no node uses for requests is as wrong as another key.
  auto failure = kj::runCatchingExceptions([&] {
    pki::VerifyKey key(pki::publicKeyOfCertificate(certificate));
    good = key.verifies(message.asBytes(), held.signature);
  });
  return failure == nullptr && good;
}

}  // namespace

pki::CertificateInfo verifyHeld(const HeldCertificate& held, kj::StringPtr message,
                                kj::StringPtr authority, kj::Date now) {
  auto certificate = firstCertificate(held.certificate);
  KJ_IF_MAYBE (error, pki::serverCertificateError(certificate, authority, now)) refuse(*error);
  if (!signedBy(certificate, held, message)) refuse("its key did not sign the request");
  auto info = pki::inspect(certificate);
  if (info.authority) refuse("it is the one of a CA");
  return info;
}

void requireNoMore(const Grant& grant, const pki::CertificateInfo& held) {
  auto lacks = [](kj::StringPtr what) {
    fail(ErrorKind::kPermissionDenied,
         kj::str("the certificate that is renewed lacks ", what,
                 "; for more than it has, use machine.token of the control-plane nodes"));
  };
  for (auto& name : grant.dnsNames) {
    auto has = std::find(held.dnsNames.begin(), held.dnsNames.end(), name);
    if (has == held.dnsNames.end()) lacks(kj::str("the name ", name));
  }
  for (auto& address : grant.addresses) {
    bool has = std::any_of(held.addresses.begin(), held.addresses.end(), [&](auto& text) {
      auto known = Ip::parse(text);
      return known.map([](Ip ip) { return ip.unmapped().toString(); }).orDefault(kj::String()) ==
             address;
    });
    if (!has) lacks(kj::str("the address ", address));
  }
}

}  // namespace talos::trustd
