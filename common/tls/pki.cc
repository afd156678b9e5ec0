#include "common/tls/pki.h"

#include <kj/debug.h>
#include <kj/encoding.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <time.h>

#include <tuple>

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/tls/openssl.h"

namespace talos::pki {
namespace {

constexpr kj::Duration kClockSkew = 5 * kj::MINUTES;
constexpr size_t kNameLimit = 64;  // ub-common-name and ub-organization-name of X.520

KeyType typeOf(EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_ED25519:
      return KeyType::kEd25519;
    case EVP_PKEY_EC:
      return KeyType::kEcdsaP256;
    case EVP_PKEY_RSA:
      return KeyType::kRsa4096;
    default:
      fail(ErrorKind::kInvalidArgument, "unsupported type of key; use Ed25519, ECDSA or RSA");
  }
}

Key generate(KeyType type) {
  EVP_PKEY* key = nullptr;
  switch (type) {
    case KeyType::kEd25519:
      key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
      break;
    case KeyType::kEcdsaP256:
      key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
      break;
    case KeyType::kRsa4096:
      key = EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", static_cast<size_t>(4096));
      break;
  }
  check(key != nullptr, "making a key");
  return Key(key);
}

// Ed25519 has its own hash; the others sign with SHA-512 (also P-256).
const EVP_MD* digestFor(EVP_PKEY* key) {
  return typeOf(key) == KeyType::kEd25519 ? nullptr : EVP_sha512();
}

void addName(X509_NAME* name, int nid, kj::StringPtr value) {
  // A fixed string type skips OpenSSL's lower limit of the length: an authority may have an empty
  // O.
  check(X509_NAME_add_entry_by_NID(name, nid, V_ASN1_UTF8STRING,
                                   reinterpret_cast<const unsigned char*>(value.begin()),
                                   static_cast<int>(value.size()), -1, 0) == 1,
        "writing a subject");
}

void fillSubject(X509_NAME* name, kj::StringPtr commonName,
                 kj::ArrayPtr<const kj::String> organizations) {
  for (auto& organization : organizations) {
    if (organization.size() > kNameLimit) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("organization \"", organization, "\" is longer than ", kNameLimit, " bytes"));
    }
    addName(name, NID_organizationName, organization);
  }
  if (commonName.size() > 0 && commonName.size() <= kNameLimit) {
    addName(name, NID_commonName, commonName);
  }
}

int64_t seconds(kj::Date date) {
  return (date - kj::UNIX_EPOCH) / kj::SECONDS;
}

void setValidity(X509* certificate, kj::Maybe<kj::Date> notBefore, kj::Duration lifetime) {
  auto now = kj::systemPreciseCalendarClock().now();
  auto begin = notBefore.orDefault(now - kClockSkew);
  auto end = notBefore.orDefault(now) + lifetime;
  check(ASN1_TIME_set(X509_getm_notBefore(certificate), seconds(begin)) != nullptr &&
            ASN1_TIME_set(X509_getm_notAfter(certificate), seconds(end)) != nullptr,
        "writing a validity");
}

void setSerial(X509* certificate) {
  auto bytes = randomBytes(16);
  bytes[0] = (bytes[0] & 0x7f) | 0x40;  // positive, and always 16 bytes long
  Handle<BIGNUM, BN_free> number(BN_bin2bn(bytes.begin(), bytes.size(), nullptr));
  check(number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr,
        "writing a serial number");
}

void addExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  Handle<X509_EXTENSION, X509_EXTENSION_free> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  check(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "writing an extension");
}

void addAlternativeName(GENERAL_NAMES* names, int type, kj::ArrayPtr<const kj::byte> value) {
  Handle<GENERAL_NAME, GENERAL_NAME_free> name(GENERAL_NAME_new());
  Handle<ASN1_STRING, ASN1_STRING_free> text(
      ASN1_STRING_type_new(type == GEN_DNS ? V_ASN1_IA5STRING : V_ASN1_OCTET_STRING));
  check(name && text && ASN1_STRING_set(text.get(), value.begin(), value.size()) == 1,
        "writing a name");
  GENERAL_NAME_set0_value(name.get(), type, text.release());
  check(sk_GENERAL_NAME_push(names, name.get()) > 0, "writing a name");
  std::ignore = name.release();  // the list owns it
}

void checkDnsName(kj::StringPtr name) {
  bool ok = name.size() > 0 && name.size() <= 253;
  for (char c : name) ok = ok && c > ' ' && c < 0x7f;
  if (!ok) fail(ErrorKind::kInvalidArgument, kj::str("\"", name, "\" is not a DNS name"));
}

Names alternativeNames(const LeafOptions& options) {
  Names names(GENERAL_NAMES_new());
  check(names != nullptr, "writing names");
  for (auto& name : options.dnsNames) {
    checkDnsName(name);
    addAlternativeName(names.get(), GEN_DNS, name.asBytes());
  }
  for (auto& address : options.addresses) {
    addAlternativeName(names.get(), GEN_IPADD, Ip::require(address).bytes());
  }
  return names;
}

bool hasNames(const Names& names) {
  return sk_GENERAL_NAME_num(names.get()) > 0;
}

struct Authority {
  Certificate certificate;
  Key key;
};

Authority readAuthority(kj::StringPtr certificatePem, kj::StringPtr keyPem) {
  Authority authority{readCertificate(certificatePem), readKey(keyPem)};
  if (X509_check_ca(authority.certificate.get()) == 0) {
    fail(ErrorKind::kInvalidArgument, "the signing certificate is not a CA");
  }
  if (X509_check_private_key(authority.certificate.get(), authority.key.get()) != 1) {
    ERR_clear_error();
    fail(ErrorKind::kInvalidArgument, "the key does not belong to the CA certificate");
  }
  return authority;
}

PublicKey publicHalf(EVP_PKEY* key) {
  X509_PUBKEY* half = nullptr;
  check(X509_PUBKEY_set(&half, key) == 1, "encoding a public key");
  return PublicKey(half);
}

// Copies the encoded key: X509_set_pubkey() looks for an encoder among all that there are, encodes
// and decodes again, which takes longer than an ECDSA signature.
void setPublicKey(X509* certificate, const X509_PUBKEY* key) {
  auto* own = X509_get_X509_PUBKEY(certificate);
  const unsigned char* bits = nullptr;
  int size = 0;
  X509_ALGOR *algorithm = nullptr, *ownAlgorithm = nullptr;
  check(X509_PUBKEY_get0_param(nullptr, &bits, &size, &algorithm, key) == 1 &&
            X509_PUBKEY_get0_param(nullptr, nullptr, nullptr, &ownAlgorithm, own) == 1 &&
            X509_ALGOR_copy(ownAlgorithm, algorithm) == 1,
        "writing a public key");
  auto* copy = static_cast<unsigned char*>(OPENSSL_memdup(bits, size));
  check(copy != nullptr, "writing a public key");
  X509_PUBKEY_set0_public_key(own, copy, size);
}

Certificate newCertificate(const X509_PUBKEY* key) {
  Certificate certificate(X509_new());
  check(certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1,
        "making a certificate");
  setPublicKey(certificate.get(), key);
  setSerial(certificate.get());
  return certificate;
}

// Makes the extension critical if there is no subject (RFC 5280 §4.1.2.6).
void addAlternativeNames(X509* certificate, const LeafOptions& options) {
  auto names = alternativeNames(options);
  if (!hasNames(names)) return;
  bool critical = X509_NAME_entry_count(X509_get_subject_name(certificate)) == 0;
  check(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), critical, 0) == 1,
        "writing names");
}

Certificate signLeaf(const Authority& authority, const X509_PUBKEY* key,
                     const LeafOptions& options) {
  auto certificate = newCertificate(key);
  auto* raw = certificate.get();
  auto* issuer = authority.certificate.get();
  setValidity(raw, options.notBefore, options.lifetime);
  auto* subject = X509_get_subject_name(raw);
  fillSubject(subject, options.commonName, options.organizations);
  check(X509_set_issuer_name(raw, X509_get_subject_name(issuer)) == 1, "writing an issuer");
  addExtension(raw, issuer, NID_key_usage, "critical,digitalSignature");
  if (options.server || options.client) {
    addExtension(raw, issuer, NID_ext_key_usage,
                 options.server && options.client ? "serverAuth,clientAuth"
                 : options.server                 ? "serverAuth"
                                                  : "clientAuth");
  }
  addExtension(raw, issuer, NID_authority_key_identifier, "keyid");
  addAlternativeNames(raw, options);
  check(X509_sign(raw, authority.key.get(), digestFor(authority.key.get())) > 0,
        "signing a certificate");
  return certificate;
}

kj::Date dateOf(const ASN1_TIME* time) {
  struct tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    ERR_clear_error();
    fail(ErrorKind::kInvalidArgument, "the certificate has no valid times");
  }
  // kj::Date counts nanoseconds and ends in 2262; certificates may say 9999.
  constexpr int64_t kLimit = INT64_MAX / 1'000'000'000;
  int64_t value = timegm(&parts);
  return kj::UNIX_EPOCH + kj::max(-kLimit, kj::min(kLimit, value)) * kj::SECONDS;
}

kj::String firstOrEmpty(kj::Vector<kj::String> names) {
  return names.empty() ? kj::str() : kj::mv(names[0]);
}

// Returns the extension `nid` of a list as T, or null. Throws InvalidArgument if there are two.
void* extensionOf(const STACK_OF(X509_EXTENSION) * extensions, int nid) {
  int state = -1;
  void* value = X509V3_get_d2i(extensions, nid, &state, nullptr);
  ERR_clear_error();
  if (value == nullptr && state != -1) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the extension ", OBJ_nid2ln(nid), " is malformed, or is there twice"));
  }
  return value;
}

// Decides by the key's encoding, which a certificate would copy: a curve given by its parameters
// has no name.
bool onP256(const X509_PUBKEY* key) {
  X509_ALGOR* algorithm = nullptr;
  int type = V_ASN1_UNDEF;
  const void* curve = nullptr;
  check(X509_PUBKEY_get0_param(nullptr, nullptr, nullptr, &algorithm, key) == 1,
        "reading a public key");
  X509_ALGOR_get0(nullptr, &type, &curve, algorithm);
  return type == V_ASN1_OBJECT &&
         OBJ_obj2nid(static_cast<const ASN1_OBJECT*>(curve)) == NID_X9_62_prime256v1;
}

Names alternativeNamesOf(const STACK_OF(X509_EXTENSION) * extensions) {
  return Names(static_cast<GENERAL_NAMES*>(extensionOf(extensions, NID_subject_alt_name)));
}

// Returns SHA-256 over SubjectPublicKeyInfo.
kj::Array<kj::byte> hashOfKey(const X509_PUBKEY* key) {
  unsigned char* der = nullptr;
  int size = i2d_X509_PUBKEY(key, &der);
  check(size > 0, "encoding a public key");
  KJ_DEFER(OPENSSL_free(der));
  auto digest = kj::heapArray<kj::byte>(32);
  check(EVP_Digest(der, size, digest.begin(), nullptr, EVP_sha256(), nullptr) == 1,
        "hashing a key");
  return digest;
}

// Throws InvalidArgument as inspectRequest() does.
RequestInfo infoOf(X509_REQ* request) {
  auto* key = X509_REQ_get0_pubkey(request);
  if (key == nullptr || X509_REQ_verify(request, key) != 1) {
    fail(ErrorKind::kInvalidArgument, "the signature of the request does not match its key");
  }
  auto* subject = X509_REQ_get_subject_name(request);
  RequestInfo info;
  info.keyType = typeOf(key);
  info.fingerprint = kj::encodeBase64(hashOfKey(X509_REQ_get_X509_PUBKEY(request)));
  if (info.keyType == KeyType::kEcdsaP256 && !onP256(X509_REQ_get_X509_PUBKEY(request))) {
    info.keyType = nullptr;
  }
  auto names = namesOf(subject, NID_commonName);
  if (names.size() > 1) {  // others take the last one
    fail(ErrorKind::kInvalidArgument, "the request has more than one common name");
  }
  info.commonName = firstOrEmpty(kj::mv(names));
  info.organizations = namesOf(subject, NID_organizationName);
  auto* extensions = X509_REQ_get_extensions(request);
  KJ_DEFER(sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free));
  Handle<BASIC_CONSTRAINTS, BASIC_CONSTRAINTS_free> constraints(
      static_cast<BASIC_CONSTRAINTS*>(extensionOf(extensions, NID_basic_constraints)));
  if (constraints && constraints->ca) {
    fail(ErrorKind::kInvalidArgument, "the request asks for a CA certificate");
  }
  if (auto names = alternativeNamesOf(extensions)) {
    readAlternativeNames(names.get(), info.dnsNames, info.addresses);
  }
  return info;
}

kj::String serialOf(X509* certificate) {
  auto* serial = X509_get0_serialNumber(certificate);
  return kj::encodeHex(
      kj::arrayPtr(ASN1_STRING_get0_data(serial), static_cast<size_t>(ASN1_STRING_length(serial))));
}

kj::String fingerprintOf(X509* certificate) {
  return kj::encodeBase64(hashOfKey(X509_get_X509_PUBKEY(certificate)));
}

}  // namespace

void Pem::wipe() {
  zeroize(text);
}

CertificateAndKey makeAuthority(const AuthorityOptions& options) {
  auto key = generate(options.keyType);
  auto certificate = newCertificate(publicHalf(key.get()).get());
  auto* raw = certificate.get();
  setValidity(raw, options.notBefore, options.lifetime);
  auto* subject = X509_get_subject_name(raw);
  auto organization = kj::str(options.organization);
  fillSubject(subject, options.commonName, kj::arrayPtr(&organization, 1));
  check(X509_set_issuer_name(raw, subject) == 1, "writing an issuer");
  addExtension(raw, raw, NID_basic_constraints, "critical,CA:TRUE");
  addExtension(raw, raw, NID_key_usage, "critical,digitalSignature,keyCertSign");
  addExtension(raw, raw, NID_ext_key_usage, "serverAuth,clientAuth");
  addExtension(raw, raw, NID_subject_key_identifier, "hash");
  LeafOptions own;
  own.addresses = KJ_MAP(a, options.addresses) {
    return kj::str(a);
  };
  addAlternativeNames(raw, own);
  check(X509_sign(raw, key.get(), digestFor(key.get())) > 0, "signing an authority");
  return {writeCertificate(raw), writeKey(key.get())};
}

kj::String crossSign(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                     kj::StringPtr otherCertificate) {
  auto authority = readAuthority(authorityCertificate, authorityKey);
  auto* issuer = authority.certificate.get();
  Certificate copy(X509_dup(readCertificate(otherCertificate).get()));
  check(copy != nullptr, "copying a certificate");
  auto* raw = copy.get();
  setSerial(raw);
  check(X509_set_issuer_name(raw, X509_get_subject_name(issuer)) == 1, "writing an issuer");
  if (ASN1_TIME_compare(X509_get0_notBefore(raw), X509_get0_notBefore(issuer)) < 0) {
    check(X509_set1_notBefore(raw, X509_get0_notBefore(issuer)) == 1, "writing a validity");
  }
  if (ASN1_TIME_compare(X509_get0_notAfter(raw), X509_get0_notAfter(issuer)) > 0) {
    check(X509_set1_notAfter(raw, X509_get0_notAfter(issuer)) == 1, "writing a validity");
  }
  for (;;) {
    auto at = X509_get_ext_by_NID(raw, NID_authority_key_identifier, -1);
    if (at < 0) break;
    X509_EXTENSION_free(X509_delete_ext(raw, at));
  }
  addExtension(raw, issuer, NID_authority_key_identifier, "keyid");
  check(X509_sign(raw, authority.key.get(), digestFor(authority.key.get())) > 0,
        "signing an authority");
  return writeCertificate(raw);
}

CertificateAndKey issue(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                        LeafOptions options) {
  auto authority = readAuthority(authorityCertificate, authorityKey);
  auto key = generate(typeOf(authority.key.get()));
  auto half = publicHalf(key.get());
  return {writeCertificate(signLeaf(authority, half.get(), options).get()), writeKey(key.get())};
}

Pem makeKey(KeyType type) {
  return writeKey(generate(type).get());
}

kj::String selfSign(kj::StringPtr keyPem, const LeafOptions& options) {
  auto key = readKey(keyPem);
  auto certificate = newCertificate(publicHalf(key.get()).get());
  auto* raw = certificate.get();
  setValidity(raw, options.notBefore, options.lifetime);
  auto* subject = X509_get_subject_name(raw);
  fillSubject(subject, options.commonName, options.organizations);
  check(X509_set_issuer_name(raw, subject) == 1, "writing an issuer");
  addExtension(raw, raw, NID_key_usage, "critical,digitalSignature");
  addExtension(raw, raw, NID_ext_key_usage, "serverAuth");
  auto names = alternativeNames(options);
  if (hasNames(names)) {
    check(X509_add1_ext_i2d(raw, NID_subject_alt_name, names.get(), 0, 0) == 1, "writing names");
  }
  check(X509_sign(raw, key.get(), digestFor(key.get())) > 0, "signing a certificate");
  return writeCertificate(raw);
}

Pem toPkcs8(kj::StringPtr keyPem) {
  return writePkcs8(readKey(keyPem).get());
}

kj::String makeRequest(kj::StringPtr keyPem, const LeafOptions& options) {
  auto key = readKey(keyPem);
  Request request(X509_REQ_new());
  check(request && X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1 &&
            X509_REQ_set_pubkey(request.get(), key.get()) == 1,
        "making a request");
  fillSubject(X509_REQ_get_subject_name(request.get()), options.commonName, options.organizations);
  auto names = alternativeNames(options);
  if (hasNames(names)) {
    STACK_OF(X509_EXTENSION)* extensions = nullptr;
    KJ_DEFER(sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free));
    check(X509V3_add1_i2d(&extensions, NID_subject_alt_name, names.get(), 0, 0) == 1 &&
              X509_REQ_add_extensions(request.get(), extensions) == 1,
          "writing names");
  }
  check(X509_REQ_sign(request.get(), key.get(), digestFor(key.get())) > 0, "signing a request");
  return writeRequest(request.get());
}

RequestInfo inspectRequest(kj::StringPtr requestPem) {
  KJ_DEFER(ERR_clear_error());
  return infoOf(readRequest(requestPem).get());
}

kj::String signRequest(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                       kj::StringPtr requestPem, LeafOptions options) {
  return Signer(authorityCertificate, authorityKey)
      .sign(requestPem, [&](const RequestInfo&) { return kj::mv(options); })
      .certificate;
}

struct Signer::Impl {
  Authority authority;
};
Signer::Signer(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey)
    : impl(kj::heap<Impl>(readAuthority(authorityCertificate, authorityKey))) {}
Signer::~Signer() noexcept(false) = default;
Signer::Signer(Signer&&) = default;
Signer& Signer::operator=(Signer&&) = default;

Signer::Signed Signer::sign(kj::StringPtr requestPem,
                            kj::FunctionParam<LeafOptions(const RequestInfo&)> decide) const {
  KJ_DEFER(ERR_clear_error());
  auto request = readRequest(requestPem);
  auto options = decide(infoOf(request.get()));
  auto certificate = signLeaf(impl->authority, X509_REQ_get_X509_PUBKEY(request.get()), options);
  return {writeCertificate(certificate.get()), serialOf(certificate.get()),
          fingerprintOf(certificate.get())};
}

struct ParsedCertificate::Impl {
  Certificate certificate;
};
ParsedCertificate::ParsedCertificate(kj::StringPtr pem)
    : impl(kj::heap<Impl>(readCertificate(pem))) {}
ParsedCertificate::~ParsedCertificate() noexcept(false) = default;
ParsedCertificate::ParsedCertificate(ParsedCertificate&&) = default;
ParsedCertificate& ParsedCertificate::operator=(ParsedCertificate&&) = default;

CertificateInfo ParsedCertificate::info() const {
  KJ_DEFER(ERR_clear_error());
  auto* raw = impl->certificate.get();
  auto* subject = X509_get_subject_name(raw);
  CertificateInfo info;
  info.commonName = firstOrEmpty(namesOf(subject, NID_commonName));
  info.organizations = namesOf(subject, NID_organizationName);
  if (auto names = alternativeNamesOf(X509_get0_extensions(raw))) {
    readAlternativeNames(names.get(), info.dnsNames, info.addresses);
  }
  info.notBefore = dateOf(X509_get0_notBefore(raw));
  info.notAfter = dateOf(X509_get0_notAfter(raw));
  info.authority = X509_check_ca(raw) != 0;
  info.serial = serialOf(raw);
  return info;
}

void ParsedCertificate::checkKey(kj::StringPtr keyPem) const {
  auto key = readKey(keyPem);
  if (X509_check_private_key(impl->certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    fail(ErrorKind::kInvalidArgument, "the private key does not belong to the certificate");
  }
}

CertificateInfo inspect(kj::StringPtr certificatePem) {
  return ParsedCertificate(certificatePem).info();
}

void checkPair(kj::StringPtr certificatePem, kj::StringPtr keyPem) {
  ParsedCertificate(certificatePem).checkKey(keyPem);
}

kj::String fingerprint(kj::StringPtr certificatePem) {
  return fingerprintOf(readCertificate(certificatePem).get());
}

kj::String authorityHash(kj::StringPtr certificatePem) {
  return kj::str(
      "sha256:",
      kj::encodeHex(hashOfKey(X509_get_X509_PUBKEY(readCertificate(certificatePem).get()))));
}

kj::Array<kj::byte> randomBytes(size_t count) {
  auto bytes = kj::heapArray<kj::byte>(count);
  check(RAND_bytes(bytes.begin(), static_cast<int>(count)) == 1, "reading random bytes");
  return bytes;
}

kj::String makeToken() {
  constexpr kj::StringPtr kAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz"_kj;
  constexpr unsigned kUnbiased = 252;  // the largest multiple of 36 in a byte
  auto token = kj::heapString(23);
  for (size_t i = 0; i < token.size(); ++i) {
    if (i == 6) {
      token[i] = '.';
      continue;
    }
    kj::byte value;
    do {
      value = randomBytes(1)[0];
    } while (value >= kUnbiased);
    token[i] = kAlphabet[value % kAlphabet.size()];
  }
  return token;
}

}  // namespace talos::pki
