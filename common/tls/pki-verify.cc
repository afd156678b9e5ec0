// Verifies a certificate against a CA, without a connection.
#include <openssl/err.h>

#include "common/base/error.h"
#include "common/tls/authorities.h"
#include "common/tls/openssl.h"

namespace talos::pki {
namespace {

using Store = Handle<X509_STORE, X509_STORE_free>;
using Verification = Handle<X509_STORE_CTX, X509_STORE_CTX_free>;

void setRules(X509_VERIFY_PARAM* rules, kj::Maybe<kj::Date> at) {
  check(X509_VERIFY_PARAM_set_purpose(rules, X509_PURPOSE_SSL_SERVER) == 1, "choosing a purpose");
  // The CA is trusted as it is, whichever CA signed it.
  unsigned long flags = X509_V_FLAG_PARTIAL_CHAIN;
  KJ_IF_MAYBE (time, at) {
    X509_VERIFY_PARAM_set_time(rules, (*time - kj::UNIX_EPOCH) / kj::SECONDS);
  } else {
    flags |= X509_V_FLAG_NO_CHECK_TIME;
  }
  check(X509_VERIFY_PARAM_set_flags(rules, flags) == 1, "choosing rules");
}

kj::Maybe<kj::String> verify(kj::StringPtr certificatePem, kj::StringPtr authorityPem,
                             kj::Maybe<kj::Date> at) {
  auto certificate = readCertificate(certificatePem);
  Store store(X509_STORE_new());
  Verification verification(X509_STORE_CTX_new());
  check(store != nullptr, "preparing a verification");
  auto authorities = certificatesIn(authorityPem);
  if (authorities.empty()) readCertificate(authorityPem);  // reports what it found instead
  for (auto& one : authorities) {
    auto authority = readCertificate(one);
    check(X509_STORE_add_cert(store.get(), authority.get()) == 1, "preparing a verification");
  }
  check(verification &&
            X509_STORE_CTX_init(verification.get(), store.get(), certificate.get(), nullptr) == 1,
        "preparing a verification");
  setRules(X509_STORE_CTX_get0_param(verification.get()), at);
  if (X509_verify_cert(verification.get()) == 1) return nullptr;
  return kj::str(X509_verify_cert_error_string(X509_STORE_CTX_get_error(verification.get())));
}

}  // namespace

kj::Maybe<kj::String> serverCertificateError(kj::StringPtr certificatePem,
                                             kj::StringPtr authorityPem, kj::Maybe<kj::Date> at) {
  KJ_DEFER(ERR_clear_error());
  kj::Maybe<kj::String> error;
  auto failure =
      kj::runCatchingExceptions([&] { error = verify(certificatePem, authorityPem, at); });
  KJ_IF_MAYBE (e, failure) return messageOf(*e);
  return error;
}

bool sameCertificate(kj::StringPtr onePem, kj::StringPtr otherPem) {
  KJ_DEFER(ERR_clear_error());
  auto one = readCertificate(onePem), other = readCertificate(otherPem);
  return X509_cmp(one.get(), other.get()) == 0;
}

}  // namespace talos::pki
