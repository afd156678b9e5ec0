// OpenSSL's objects as owned values, and the PEM blocks in which we read and write them.
//
// Only for common/tls, common/etcd-data/snapshot-signature.cc and tests. Reading accepts foreign
// bytes: it returns an object or throws InvalidArgument that names what was found instead, and
// leaves OpenSSL's error queue empty, so that a later TLS error does not carry a peer's text.
#pragma once

#include <kj/string.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

#include "common/tls/pki.h"

namespace talos::pki {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <typename T, auto Free>
using Handle = std::unique_ptr<T, Freer<Free>>;

using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using Certificate = Handle<X509, X509_free>;
using Request = Handle<X509_REQ, X509_REQ_free>;
using PublicKey = Handle<X509_PUBKEY, X509_PUBKEY_free>;
using Names = Handle<GENERAL_NAMES, GENERAL_NAMES_free>;

// Throws kInternal with OpenSSL's last error, and empties its error queue.
[[noreturn]] void failOpenssl(kj::StringPtr doing);
inline void check(bool ok, kj::StringPtr doing) {
  if (!ok) failOpenssl(doing);
}

Key readKey(kj::StringPtr pem);
Key readPublicKey(kj::StringPtr pem);            // "PUBLIC KEY"
Certificate readCertificate(kj::StringPtr pem);  // the first one
Request readRequest(kj::StringPtr pem);

Pem writeKey(EVP_PKEY* key);    // with the label of the key's type
Pem writePkcs8(EVP_PKEY* key);  // "PRIVATE KEY"
kj::String writeCertificate(X509* certificate);
kj::String writeRequest(X509_REQ* request);

// Returns every value of one attribute of a name, in order. Throws InvalidArgument if one contains
// a NUL.
kj::Vector<kj::String> namesOf(const X509_NAME* subject, int nid);

// Appends the DNS names and the addresses of a subjectAltName extension; other kinds are left out.
void readAlternativeNames(const GENERAL_NAMES* names, kj::Vector<kj::String>& dnsNames,
                          kj::Vector<kj::String>& addresses);

}  // namespace talos::pki
