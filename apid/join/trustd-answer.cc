// Verifies trustd and its answers. Pure.
#include "apid/join/joiner.h"
#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/node-messages.h"
#include "common/tls/authorities.h"
#include "common/tls/node-certificate.h"
#include "common/tls/public-key.h"

namespace talos::apid {
namespace {

kj::String firstOf(kj::StringPtr pem) {
  auto all = pki::certificatesIn(pem);
  return all.empty() ? kj::str(pem) : kj::mv(all[0]);
}

[[noreturn]] void refuse(kj::StringPtr error) {
  fail(ErrorKind::kUnauthenticated, kj::str("the answer of trustd is not valid: ", error));
}

bool names(const pki::CertificateInfo& info, const Ip& address) {
  for (auto& text : info.addresses) {
    KJ_IF_MAYBE (named, Ip::parse(text)) {
      if (named->unmapped() == address) return true;
    }
  }
  return false;
}

void checkTime(const pki::CertificateInfo& info, kj::Date now) {
  if (now >= info.notBefore && now < info.notAfter) return;
  refuse(kj::str("its certificate is valid from ", dateText(info.notBefore), " to ",
                 dateText(info.notAfter), ", but this node's clock shows ", dateText(now)));
}

bool accepts(const Pin& pin, kj::StringPtr authority) {
  for (auto& other : pki::certificatesIn(pin.accepted)) {
    if (pki::sameCertificate(authority, other)) return true;
  }
  return false;
}

void checkAuthority(kj::StringPtr authority, const Pin& pin) {
  if (accepts(pin, authority)) return;
  if (pin.authority.size() > 0) {
    if (pki::sameCertificate(authority, pin.authority)) return;
    refuse("its CA is not the one that this node trusts");
  }
  if (pin.hash.size() > 0) {
    auto found = pki::authorityHash(authority);
    if (found != pin.hash) {
      refuse(kj::str("its CA has the hash ", found, ", not machine.caHash"));
    }
  }
}

// Returns the error of verifying the server by the CA alone.
kj::Maybe<kj::String> authorityError(const Pin& pin, kj::ArrayPtr<const kj::String> chain) {
  if (pin.authority.size() > 0) {
    return pki::serverCertificateError(chain[0], kj::str(pin.authority, "\n", pin.accepted),
                                       pin.at);
  }
  if (pin.accepted.size() > 0 &&
      pki::serverCertificateError(chain[0], pin.accepted, pin.at) == nullptr) {
    return nullptr;
  }
  for (auto& certificate : chain) {
    if (pki::authorityHash(certificate) == pin.hash) {
      return pki::serverCertificateError(chain[0], certificate, pin.at);
    }
  }
  return kj::str("none of its ", chain.size(), " certificates has the hash machine.caHash");
}

}  // namespace

Identity Identity::clone() const {
  return {kj::str(authority), kj::str(certificate), key.clone()};
}

kj::StringPtr Pin::kind() const {
  return authority.size() > 0 ? "ca"_kj : hash.size() > 0 ? "hash"_kj : "nothing"_kj;
}

kj::Maybe<kj::String> Pin::verify(kj::ArrayPtr<const kj::String> chain) const {
  if (kind() == "nothing") return nullptr;
  KJ_IF_MAYBE (error, authorityError(*this, chain)) return kj::mv(*error);
  if (isOfControlPlane(pki::inspect(chain[0]))) return nullptr;
  return kj::str(
      "its certificate ", messages::kNotOfControlPlane,
      "; set cluster.controlPlane.endpoint and cluster.trustd.endpoints to control-plane nodes");
}

bool isOfOther(const Identity& held, const JoinConfig& config) {
  if (config.authority.size() > 0) return !pki::isSignedBy(held.certificate, config.authority);
  return config.authorityHash.size() > 0 &&
         pki::authorityHash(held.authority) != config.authorityHash;
}

Identity dressed(const Identity& held, const JoinConfig& config) {
  auto leaf = firstOf(held.certificate);
  auto own = config.authority.size() > 0 ? kj::str(config.authority) : firstOf(held.authority);
  auto authorities = pki::authoritiesOf(own, config.accepted);
  return {kj::mv(authorities.trusted), kj::str(leaf, authorities.behind), held.key.clone()};
}

void checkAnswer(const TrustdAnswer& answer, const Pin& pin, kj::StringPtr key, const Ip& local) {
  auto info = pki::inspect(answer.certificate);
  checkAuthority(answer.authority, pin);
  KJ_IF_MAYBE (error, pki::serverCertificateError(answer.certificate, answer.authority, nullptr)) {
    refuse(kj::str("its CA did not issue its certificate: ", *error));
  }
  if (kj::runCatchingExceptions([&] { pki::checkPair(answer.certificate, key); }) != nullptr) {
    refuse("its certificate is for another key than the request");
  }
  if (!names(info, local)) {
    refuse(kj::str("its certificate lacks ", local.toString(), ", the address of this node"));
  }
  KJ_IF_MAYBE (now, pin.at) checkTime(info, *now);
}

}  // namespace talos::apid
