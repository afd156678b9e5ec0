// Keys, certificates and requests on OpenSSL, as spec pki-and-trustd.md §1 lists them.
//
// PEM in, PEM out, in memory. Keys are PKCS#8; the labels "PRIVATE KEY", "ED25519 PRIVATE KEY" (PKCS#8
// bytes), "EC PRIVATE KEY" (SEC1) and "RSA PRIVATE KEY" (PKCS#1) are read, and written as the spec says.
// Serial numbers are 128 random bits. Secret strings are zeroed when their owner drops them (class Pem).
#pragma once

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
  ~Pem() noexcept(false);
  Pem(Pem&&) = default;
  Pem& operator=(Pem&&) = default;
  KJ_DISALLOW_COPY(Pem);
  operator kj::StringPtr() const { return text; }
  kj::ArrayPtr<const kj::byte> bytes() const { return text.asBytes(); }
  Pem clone() const { return Pem(kj::str(text)); }

 private:
  kj::String text;
};

enum class KeyType { kEd25519, kEcdsaP256, kRsa4096 };

struct CertificateAndKey { kj::String certificate; Pem key; };   // PEM

struct AuthorityOptions {
  kj::StringPtr organization;        // O; may be empty
  kj::StringPtr commonName = "";     // CN, left out when empty
  KeyType keyType = KeyType::kEd25519;
  kj::Duration lifetime = 87600 * kj::HOURS;
  kj::Maybe<kj::Date> notBefore;     // default: now
};
// Self-signed, CA:true, keyCertSign + digitalSignature, serverAuth + clientAuth.
CertificateAndKey makeAuthority(const AuthorityOptions& options);

struct LeafOptions {
  kj::StringPtr commonName = "";
  kj::Array<kj::String> organizations;   // roles of a client: "os:admin"
  kj::Array<kj::String> dnsNames;
  kj::Array<kj::String> addresses;       // IPv4 or IPv6 text
  bool server = true, client = true;     // extended key usage
  kj::Duration lifetime = 24 * kj::HOURS;
  kj::Maybe<kj::Date> notBefore;
};
// A new key of the authority's type and a certificate signed by it.
CertificateAndKey issue(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey, LeafOptions options);

Pem makeKey(KeyType type);

// What a certificate says. Throws InvalidArgument when the text is not a certificate.
struct CertificateInfo {
  kj::String commonName;
  kj::Vector<kj::String> organizations;
  kj::Vector<kj::String> dnsNames, addresses;
  kj::Date notBefore = kj::UNIX_EPOCH, notAfter = kj::UNIX_EPOCH;
  bool authority = false;
  kj::String serial;                     // hex
};
CertificateInfo inspect(kj::StringPtr certificatePem);

// base64 of SHA-256 over SubjectPublicKeyInfo (spec talosctl.md §6.1).
kj::String fingerprint(kj::StringPtr certificatePem);

// System random.
kj::Array<kj::byte> randomBytes(size_t count);
// "abcdef.0123456789abcdef", unbiased [0-9a-z].
kj::String makeToken();

}  // namespace talos::pki
