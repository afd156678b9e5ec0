#include "common/tls/public-key.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "common/tls/openssl.h"

namespace talos::pki {
namespace {

kj::String writePublicKey(EVP_PKEY* key) {
  Handle<BIO, BIO_free_all> out(BIO_new(BIO_s_mem()));
  check(out && PEM_write_bio_PUBKEY(out.get(), key) == 1, "writing a public key");
  char* text;
  auto size = BIO_get_mem_data(out.get(), &text);
  return kj::heapString(text, static_cast<size_t>(size));
}

}  // namespace

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
  return writePublicKey(readKey(keyPem).get());
}

kj::String publicKeyOfCertificate(kj::StringPtr certificatePem) {
  KJ_DEFER(ERR_clear_error());
  auto certificate = readCertificate(certificatePem);
  auto key = X509_get0_pubkey(certificate.get());
  check(key != nullptr, "reading the key of a certificate");
  return writePublicKey(key);
}

}  // namespace talos::pki
