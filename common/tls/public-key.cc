#include "common/tls/public-key.h"

#include <kj/encoding.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "common/base/error.h"
#include "common/tls/authorities.h"
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

kj::Vector<kj::String> publicKeysIn(kj::StringPtr pem) {
  return blocksIn(pem, "PUBLIC KEY"_kj);
}

kj::String tokenKeyId(kj::StringPtr publicKeyPem) {
  KJ_DEFER(ERR_clear_error());
  auto key = readPublicKey(publicKeyPem);
  auto type = EVP_PKEY_get_base_id(key.get());
  if (type != EVP_PKEY_RSA && type != EVP_PKEY_EC) {
    fail(ErrorKind::kInvalidArgument, "not a public key of RSA or ECDSA");
  }
  unsigned char* der = nullptr;
  auto size = i2d_PUBKEY(key.get(), &der);
  check(size > 0, "encoding a public key");
  KJ_DEFER(OPENSSL_free(der));
  auto digest = kj::heapArray<kj::byte>(static_cast<size_t>(EVP_MD_get_size(EVP_sha256())));
  check(EVP_Digest(der, static_cast<size_t>(size), digest.begin(), nullptr, EVP_sha256(),
                   nullptr) == 1,
        "hashing a key");
  return kj::encodeBase64Url(digest);
}

bool isRsaKey(kj::StringPtr keyPem) {
  return EVP_PKEY_get_base_id(readKey(keyPem).get()) == EVP_PKEY_RSA;
}

}  // namespace talos::pki
