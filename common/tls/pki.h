// Keys, certificates and certificate requests with OpenSSL.
//
// PEM in, PEM out, in memory; no function touches a file. Keys are read under the labels "PRIVATE
// KEY" and "ED25519 PRIVATE KEY" (both PKCS#8), "EC PRIVATE KEY" (SEC1) and "RSA PRIVATE KEY"
// (PKCS#1), and written under the last three, by type. Serial numbers are 128 random bits. A key's
// text is zeroed when its owner drops it (class Pem), and so is every buffer that held it. Input is
// foreign: every reader returns a value or throws InvalidArgument.
#pragma once

#include <kj/function.h>
#include <kj/memory.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos::pki {

// PEM text that is zeroed on destruction.
class Pem {
 public:
  Pem() = default;
  explicit Pem(kj::String text) : text(kj::mv(text)) {}
  ~Pem() noexcept(false) { wipe(); }
  Pem(Pem&& other) : text(kj::mv(other.text)) {}
  Pem& operator=(Pem&& other) {
    wipe();
    text = kj::mv(other.text);
    return *this;
  }
  KJ_DISALLOW_COPY(Pem);
  operator kj::StringPtr() const { return text; }
  kj::ArrayPtr<const kj::byte> bytes() const { return text.asBytes(); }
  Pem clone() const { return Pem(kj::str(text)); }

 private:
  kj::String text;
  void wipe();
};

enum class KeyType { kEd25519, kEcdsaP256, kRsa4096 };

struct CertificateAndKey {
  kj::String certificate;
  Pem key;
};

// Without a notBefore, certificates are valid from five minutes ago, so that a peer whose clock is
// a little slow accepts them, until now + lifetime. With a notBefore, they are valid from then for
// the lifetime.

struct AuthorityOptions {
  kj::StringPtr organization = "";  // O; may be empty
  kj::StringPtr commonName = "";    // CN, left out if empty
  KeyType keyType = KeyType::kEd25519;
  kj::Duration lifetime = 87600 * kj::HOURS;
  kj::Maybe<kj::Date> notBefore = nullptr;
  kj::ArrayPtr<const kj::String> addresses =
      nullptr;  // subject alternative names, if the CA is also a server
};
// Makes a self-signed certificate with CA:true, keyCertSign + digitalSignature, serverAuth +
// clientAuth.
CertificateAndKey makeAuthority(const AuthorityOptions& options);

struct LeafOptions {
  kj::StringPtr commonName = "";  // left out if longer than the 64 octets that X.509 allows
  kj::Array<kj::String> organizations = nullptr;  // roles of a client: "os:admin"
  kj::Array<kj::String> dnsNames = nullptr;
  kj::Array<kj::String> addresses = nullptr;  // IPv4 or IPv6 text
  bool server = true, client = true;          // extended key usage
  kj::Duration lifetime = 24 * kj::HOURS;
  kj::Maybe<kj::Date> notBefore = nullptr;
};
// Makes a new key of the authority's type and a certificate signed by the authority.
CertificateAndKey issue(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                        LeafOptions options);

Pem makeKey(KeyType type);

// Returns a self-signed certificate of this key: a leaf, which can be trusted only by its
// fingerprint.
kj::String selfSign(kj::StringPtr keyPem, const LeafOptions& options);

// Returns the key under the label "PRIVATE KEY" (PKCS#8), which every TLS library reads.
Pem toPkcs8(kj::StringPtr keyPem);

// Returns a PKCS#10 request, signed with the key, with organizations and common name, DNS names and
// addresses of the options; the signer decides about usage and lifetime.
kj::String makeRequest(kj::StringPtr keyPem, const LeafOptions& options);

// Content of a certificate request. InvalidArgument if it does not parse, if its signature is not
// by the key that it carries, or if it requests a CA certificate.
struct RequestInfo {
  kj::Maybe<KeyType> keyType = KeyType::kEd25519;  // nullptr for an unknown elliptic curve
  kj::String fingerprint;                          // fingerprint() of the key
  kj::String commonName;
  kj::Vector<kj::String> organizations;
  kj::Vector<kj::String> dnsNames, addresses;
};
RequestInfo inspectRequest(kj::StringPtr requestPem);

// Signs the key of a request. The content of the certificate comes only from the options: the
// caller decides what to copy there from the request.
kj::String signRequest(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                       kj::StringPtr requestPem, LeafOptions options);

// A CA that signs many requests: its key is parsed once.
class Signer {
 public:
  // Throws InvalidArgument if the certificate is not a CA's, or the key does not belong to it.
  Signer(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey);
  ~Signer() noexcept(false);
  Signer(Signer&&);
  Signer& operator=(Signer&&);

  struct Signed {
    kj::String certificate;  // PEM
    kj::String serial;       // hex, lower case
    kj::String fingerprint;  // fingerprint() of the request's key
  };
  // `decide` gets the content of a request whose signature is valid (see inspectRequest()) and
  // returns the options of the certificate; its exceptions pass through.
  Signed sign(kj::StringPtr requestPem,
              kj::FunctionParam<LeafOptions(const RequestInfo&)> decide) const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

// Returns a certificate for another CA's key and name, signed by this CA: a peer that trusts this
// CA can verify certificates that the other CA signed. Valid while both CAs are.
kj::String crossSign(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                     kj::StringPtr otherCertificate);

// Content of a certificate (the first one of the text).
struct CertificateInfo {
  kj::String commonName;
  kj::Vector<kj::String> organizations;
  kj::Vector<kj::String> dnsNames, addresses;
  kj::Date notBefore = kj::UNIX_EPOCH, notAfter = kj::UNIX_EPOCH;
  bool authority = false;
  kj::String serial;  // hex, lower case
};
CertificateInfo inspect(kj::StringPtr certificatePem);

// A certificate that is parsed once for several questions (the first one of the text).
class ParsedCertificate {
 public:
  // Throws InvalidArgument if the text does not parse.
  explicit ParsedCertificate(kj::StringPtr pem);
  ~ParsedCertificate() noexcept(false);
  ParsedCertificate(ParsedCertificate&&);
  ParsedCertificate& operator=(ParsedCertificate&&);

  CertificateInfo info() const;
  // Throws InvalidArgument if the key is not the certificate's.
  void checkKey(kj::StringPtr keyPem) const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

// Verifies a server certificate against one CA or several; returns the error ("certificate has
// expired"), nullptr if it is valid. Its validity is checked at the time `at`, and not at all
// without it. Names are not checked. Foreign bytes: text that does not parse is an error too.
kj::Maybe<kj::String> serverCertificateError(kj::StringPtr certificatePem,
                                             kj::StringPtr authorityPem, kj::Maybe<kj::Date> at);

// Compares the first certificate of each text.
bool sameCertificate(kj::StringPtr onePem, kj::StringPtr otherPem);

// Throws InvalidArgument if the key is not the certificate's.
void checkPair(kj::StringPtr certificatePem, kj::StringPtr keyPem);

// Returns base64 of SHA-256 over SubjectPublicKeyInfo.
kj::String fingerprint(kj::StringPtr certificatePem);
// Returns the same hash in the form of machine.caHash: "sha256:" and 64 digits of lower-case hex.
kj::String authorityHash(kj::StringPtr certificatePem);

// Returns bytes of the system's random generator.
kj::Array<kj::byte> randomBytes(size_t count);
// Returns "abcdef.0123456789abcdef", unbiased [0-9a-z].
kj::String makeToken();

}  // namespace talos::pki
