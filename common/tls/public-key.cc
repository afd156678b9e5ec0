#include "common/tls/public-key.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "common/tls/openssl.h"

namespace talos::pki {

bool isSignedBy(kj::StringPtr certificatePem, kj::StringPtr authorityPem) {
  KJ_DEFER(ERR_clear_error());
  bool isSigned = false;
  kj::runCatchingExceptions([&] {
    auto certificate = readCertificate(certificatePem), authority = readCertificate(authorityPem);
    auto key = X509_get0_pubkey(authority.get());
    isSigned = key != nullptr && X509_verify(certificate.get(), key) == 1;
  });
  return isSigned;
}

kj::String publicKeyOf(kj::StringPtr keyPem) {
  auto key = readKey(keyPem);
  Handle<BIO, BIO_free_all> out(BIO_new(BIO_s_mem()));
  check(out && PEM_write_bio_PUBKEY(out.get(), key.get()) == 1, "writing a public key");
  char* text;
  auto size = BIO_get_mem_data(out.get(), &text);
  return kj::heapString(text, static_cast<size_t>(size));
}

}  // namespace talos::pki
