// Keys, certificates and requests on OpenSSL, as spec pki-and-trustd.md §1 lists them.
//
// PEM in, PEM out, in memory; nothing here touches a file. Keys are read under the labels "PRIVATE
// KEY" and "ED25519 PRIVATE KEY" (both PKCS#8), "EC PRIVATE KEY" (SEC1) and "RSA PRIVATE KEY"
// (PKCS#1), and written under the last three, by type. Serial numbers are 128 random bits. A key's
// text is zeroed when its owner drops it (class Pem), and so is every buffer that it passed
// through. Text that comes from elsewhere may be anything: every reader ends in a value or in
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

// Certificates without a notBefore begin five minutes ago, so that a peer whose clock is a little
// behind accepts them; they end at now + lifetime. With one they run from it for the lifetime.

struct AuthorityOptions {
  kj::StringPtr organization = "";  // O; may be empty
  kj::StringPtr commonName = "";    // CN, left out when empty
  KeyType keyType = KeyType::kEd25519;
  kj::Duration lifetime = 87600 * kj::HOURS;
  kj::Maybe<kj::Date> notBefore = nullptr;
  kj::ArrayPtr<const kj::String> addresses = nullptr;  // names of its own, when it is a server too
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

// A certificate of this key that it signed itself, for who has no authority: a leaf, which nobody
// can trust but by its fingerprint.
kj::String selfSign(kj::StringPtr keyPem, const LeafOptions& options);

// The key under the label "PRIVATE KEY" (PKCS#8), which every TLS library reads.
Pem toPkcs8(kj::StringPtr keyPem);

// A PKCS#10 request, signed with the key: organizations and common name, DNS names and addresses of
// the options; usage and lifetime are the signer's business.
kj::String makeRequest(kj::StringPtr keyPem, const LeafOptions& options);

// What a request asks for. InvalidArgument when it does not parse, when its signature is not by the
// key that it carries, or when it asks to be an authority.
struct RequestInfo {
  kj::Maybe<KeyType> keyType =
      KeyType::kEd25519;  // none: on an elliptic curve that has no name here
  kj::String commonName;
  kj::Vector<kj::String> organizations;
  kj::Vector<kj::String> dnsNames, addresses;
};
RequestInfo inspectRequest(kj::StringPtr requestPem);

// Signs the key of a request. What the certificate says comes from the options alone: the caller
// decides which of the request's wishes it copies there.
kj::String signRequest(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                       kj::StringPtr requestPem, LeafOptions options);

// An authority that signs many requests: its key is read once.
class Signer {
 public:
  // InvalidArgument when the certificate is no authority's, or the key not its.
  Signer(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey);
  ~Signer() noexcept(false);
  Signer(Signer&&);
  Signer& operator=(Signer&&);

  struct Signed {
    kj::String certificate;  // PEM
    kj::String serial;       // hex, lower case
    kj::String fingerprint;  // of the request's key, as fingerprint() has it
  };
  // `decide` hears what a request asks for whose signature is good (inspectRequest() says which are
  // not), and answers what the certificate is to say; what it throws ends this.
  Signed sign(kj::StringPtr requestPem,
              kj::FunctionParam<LeafOptions(const RequestInfo&)> decide) const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

// What a certificate says (the first one of the text).
struct CertificateInfo {
  kj::String commonName;
  kj::Vector<kj::String> organizations;
  kj::Vector<kj::String> dnsNames, addresses;
  kj::Date notBefore = kj::UNIX_EPOCH, notAfter = kj::UNIX_EPOCH;
  bool authority = false;
  kj::String serial;  // hex, lower case
};
CertificateInfo inspect(kj::StringPtr certificatePem);

// Why this is no certificate of a server that the authority signed ("certificate has expired");
// none when it is one. Validity is looked at for the time `at`, and not at all without it. Names
// are the caller's business. Foreign bytes: what does not parse is a reason too.
kj::Maybe<kj::String> whyNotServer(kj::StringPtr certificatePem, kj::StringPtr authorityPem,
                                   kj::Maybe<kj::Date> at);

// Whether both texts begin with the same certificate.
bool sameCertificate(kj::StringPtr onePem, kj::StringPtr otherPem);

// Throws InvalidArgument when the key is not the certificate's.
void checkPair(kj::StringPtr certificatePem, kj::StringPtr keyPem);

// base64 of SHA-256 over SubjectPublicKeyInfo (spec talosctl.md §6.1).
kj::String fingerprint(kj::StringPtr certificatePem);
// The same hash as machine.caHash has it: "sha256:" and 64 digits of lower-case hex.
kj::String authorityHash(kj::StringPtr certificatePem);

// System random.
kj::Array<kj::byte> randomBytes(size_t count);
// "abcdef.0123456789abcdef", unbiased [0-9a-z].
kj::String makeToken();

}  // namespace talos::pki
