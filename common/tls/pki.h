// Keys, certificates and certificate requests on OpenSSL.
//
// PEM in, PEM out, in memory; no function touches a file. Keys are read under the labels "PRIVATE
// KEY" and "ED25519 PRIVATE KEY" (both PKCS#8), "EC PRIVATE KEY" (SEC1) and "RSA PRIVATE KEY"
// (PKCS#1), and written under the last three, by type. Serial numbers are 128 random bits. A key's
// text is zeroed when its owner drops it (class Pem), and so is every buffer that it passed
// through. Input is foreign: every reader returns a value or throws
// InvalidArgument.
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
// a little behind accepts them, until now + lifetime. With one, they are valid from it for the
// lifetime.

struct AuthorityOptions {
  kj::StringPtr organization = "";  // O; may be empty
  kj::StringPtr commonName = "";    // CN, left out when empty
  KeyType keyType = KeyType::kEd25519;
  kj::Duration lifetime = 87600 * kj::HOURS;
  kj::Maybe<kj::Date> notBefore = nullptr;
  kj::ArrayPtr<const kj::String> addresses =
      nullptr;  // subject alternative names, if it is a server too
};
// Self-signed, CA:true, keyCertSign + digitalSignature, serverAuth + clientAuth.
CertificateAndKey makeAuthority(const AuthorityOptions& options);

struct LeafOptions {
  kj::StringPtr commonName = "";  // left out when longer than the 64 octets that X.509 allows
  kj::Array<kj::String> organizations = nullptr;  // roles of a client: "os:admin"
  kj::Array<kj::String> dnsNames = nullptr;
  kj::Array<kj::String> addresses = nullptr;  // IPv4 or IPv6 text
  bool server = true, client = true;          // extended key usage
  kj::Duration lifetime = 24 * kj::HOURS;
  kj::Maybe<kj::Date> notBefore = nullptr;
};
// A new key of the authority's type and a certificate signed by it.
CertificateAndKey issue(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                        LeafOptions options);

Pem makeKey(KeyType type);

// A self-signed certificate of this key: a leaf, which can be trusted by its fingerprint only.
kj::String selfSign(kj::StringPtr keyPem, const LeafOptions& options);

// The key under the label "PRIVATE KEY" (PKCS#8), which every TLS library reads.
Pem toPkcs8(kj::StringPtr keyPem);

// A PKCS#10 request, signed with the key: organizations and common name, DNS names and addresses of
// the options; usage and lifetime are the signer's business.
kj::String makeRequest(kj::StringPtr keyPem, const LeafOptions& options);

// The content of a certificate request. InvalidArgument when it does not parse, when its signature
// is not by the key that it carries, or when it requests a CA certificate.
struct RequestInfo {
  kj::Maybe<KeyType> keyType = KeyType::kEd25519;  // none: on an unknown elliptic curve
  kj::String fingerprint;                          // of the key, as fingerprint() has it
  kj::String commonName;
  kj::Vector<kj::String> organizations;
  kj::Vector<kj::String> dnsNames, addresses;
};
RequestInfo inspectRequest(kj::StringPtr requestPem);

// Signs the key of a request. The content of the certificate comes from the options alone: the
// caller decides what to copy there from the request.
kj::String signRequest(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                       kj::StringPtr requestPem, LeafOptions options);

// A CA that signs many requests: its key is parsed once.
class Signer {
 public:
  // InvalidArgument when the certificate is not a CA's, or the key does not belong to it.
  Signer(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey);
  ~Signer() noexcept(false);
  Signer(Signer&&);
  Signer& operator=(Signer&&);

  struct Signed {
    kj::String certificate;  // PEM
    kj::String serial;       // hex, lower case
    kj::String fingerprint;  // of the request's key, as fingerprint() has it
  };
  // `decide` gets the content of a request whose signature is valid (see inspectRequest()) and
  // returns the options of the certificate; its exceptions pass through.
  Signed sign(kj::StringPtr requestPem,
              kj::FunctionParam<LeafOptions(const RequestInfo&)> decide) const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

// The certificate of another CA, for its key and with its name, signed by this one: whoever trusts
// this CA can verify what the other one signed. Valid while both are.
kj::String crossSign(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                     kj::StringPtr otherCertificate);

// The content of a certificate (the first one of the text).
struct CertificateInfo {
  kj::String commonName;
  kj::Vector<kj::String> organizations;
  kj::Vector<kj::String> dnsNames, addresses;
  kj::Date notBefore = kj::UNIX_EPOCH, notAfter = kj::UNIX_EPOCH;
  bool authority = false;
  kj::String serial;  // hex, lower case
};
CertificateInfo inspect(kj::StringPtr certificatePem);

// The error of verifying a server certificate against a CA, or several ("certificate has expired");
// none when it is valid. Its validity is checked at the time `at`, and not at all without it. Names
// are not checked. Foreign bytes: text that does not parse is an error too.
kj::Maybe<kj::String> serverCertificateError(kj::StringPtr certificatePem,
                                             kj::StringPtr authorityPem, kj::Maybe<kj::Date> at);

// Compares the first certificate of each text.
bool sameCertificate(kj::StringPtr onePem, kj::StringPtr otherPem);

// Throws InvalidArgument when the key is not the certificate's.
void checkPair(kj::StringPtr certificatePem, kj::StringPtr keyPem);

// base64 of SHA-256 over SubjectPublicKeyInfo.
kj::String fingerprint(kj::StringPtr certificatePem);
// The same hash as machine.caHash has it: "sha256:" and 64 digits of lower-case hex.
kj::String authorityHash(kj::StringPtr certificatePem);

// System random.
kj::Array<kj::byte> randomBytes(size_t count);
// "abcdef.0123456789abcdef", unbiased [0-9a-z].
kj::String makeToken();

}  // namespace talos::pki
