#include "common/tls/pki.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/tls/openssl.h"

namespace talos::pki {
namespace {

const kj::Date kStart = kj::UNIX_EPOCH + 1'700'000'000 * kj::SECONDS;

// Returns the message of the InvalidArgument in which `work` must end.
template <typename Work>
kj::String refusal(Work&& work) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { work(); })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kInvalidArgument) << e->getDescription().cStr();
    return messageOf(*e);
  }
  ADD_FAILURE() << "was accepted";
  return kj::str();
}

kj::String ed25519Authority(Pem& key) {
  auto made = makeAuthority({.organization = "talos"});
  key = kj::mv(made.key);
  return kj::mv(made.certificate);
}

// Catches: a label that tools of 0.9 do not read, and a key that we write but do not read again.
TEST(Pki, KeysHaveTheLabelOfTheirTypeAndReadBack) {
  struct Row {
    KeyType type;
    const char* label;
    int id;
  };
  for (auto& row : {Row{KeyType::kEd25519, "ED25519 PRIVATE KEY", EVP_PKEY_ED25519},
                    Row{KeyType::kEcdsaP256, "EC PRIVATE KEY", EVP_PKEY_EC},
                    Row{KeyType::kRsa4096, "RSA PRIVATE KEY", EVP_PKEY_RSA}}) {
    auto pem = makeKey(row.type);
    kj::StringPtr text = pem;
    EXPECT_TRUE(text.startsWith(kj::str("-----BEGIN ", row.label, "-----\n"))) << row.label;
    auto key = readKey(text);
    EXPECT_EQ(EVP_PKEY_get_base_id(key.get()), row.id);
    auto pkcs8 = toPkcs8(text);
    EXPECT_TRUE(kj::StringPtr(pkcs8).startsWith("-----BEGIN PRIVATE KEY-----\n"));
    EXPECT_EQ(EVP_PKEY_eq(readKey(pkcs8).get(), key.get()), 1) << row.label;
  }
}

// Catches: an Ed25519 block that holds something else than PKCS#8 (PKCS#8 under that label).
TEST(Pki, Ed25519LabelHoldsPkcs8) {
  auto pem = makeKey(KeyType::kEd25519);
  kj::String relabelled = kj::str(kj::StringPtr(pem));
  std::string text(relabelled.cStr());
  for (size_t at; (at = text.find("ED25519 PRIVATE KEY")) != std::string::npos;) {
    text.replace(at, strlen("ED25519 PRIVATE KEY"), "PRIVATE KEY");
  }
  EXPECT_EQ(EVP_PKEY_eq(readKey(kj::StringPtr(text.c_str())).get(), readKey(pem).get()), 1);
}

// Catches: an authority that TLS stacks do not take as one, or with the wrong life.
TEST(Pki, AuthoritySaysWhatItIs) {
  auto made =
      makeAuthority({.organization = "talos", .lifetime = 87600 * kj::HOURS, .notBefore = kStart});
  auto info = inspect(made.certificate);
  EXPECT_TRUE(info.authority);
  ASSERT_EQ(info.organizations.size(), 1u);
  EXPECT_EQ(info.organizations[0], "talos");
  EXPECT_EQ(info.commonName, "");
  EXPECT_EQ(info.notBefore, kStart);
  EXPECT_EQ(info.notAfter, kStart + 87600 * kj::HOURS);
  EXPECT_EQ(info.serial.size(), 32u);
  auto certificate = readCertificate(made.certificate);
  auto* raw = certificate.get();
  EXPECT_EQ(X509_get_key_usage(raw), uint32_t{KU_KEY_CERT_SIGN | KU_DIGITAL_SIGNATURE});
  EXPECT_EQ(X509_get_extended_key_usage(raw), uint32_t{XKU_SSL_SERVER | XKU_SSL_CLIENT});
  EXPECT_EQ(X509_verify(raw, X509_get0_pubkey(raw)), 1);
  EXPECT_NE(X509_get0_subject_key_id(raw), nullptr);
}

// Catches: an empty organisation that OpenSSL's own length check refuses (the aggregator's
// authority).
TEST(Pki, AuthorityMayHaveAnEmptyOrganization) {
  auto info =
      inspect(makeAuthority(
                  {.organization = "", .commonName = "front-proxy", .keyType = KeyType::kEcdsaP256})
                  .certificate);
  ASSERT_EQ(info.organizations.size(), 1u);
  EXPECT_EQ(info.organizations[0], "");
  EXPECT_EQ(info.commonName, "front-proxy");
}

// Catches: roles, names or usages lost between the options and the certificate.
TEST(Pki, LeafSaysWhatItWasIssuedFor) {
  for (auto type : {KeyType::kEd25519, KeyType::kEcdsaP256}) {
    auto authority = makeAuthority({.organization = "talos", .keyType = type});
    auto leaf = issue(authority.certificate, authority.key,
                      {.commonName = "node1",
                       .organizations = kj::arr(kj::str("os:admin"), kj::str("os:reader")),
                       .dnsNames = kj::arr(kj::str("node1"), kj::str("node1.example")),
                       .addresses = kj::arr(kj::str("10.5.0.2"), kj::str("fd00::2")),
                       .server = false,
                       .lifetime = 1 * kj::HOURS,
                       .notBefore = kStart});
    auto info = inspect(leaf.certificate);
    EXPECT_FALSE(info.authority);
    EXPECT_EQ(info.commonName, "node1");
    EXPECT_EQ(kj::strArray(info.organizations, ","), "os:admin,os:reader");
    EXPECT_EQ(kj::strArray(info.dnsNames, ","), "node1,node1.example");
    EXPECT_EQ(kj::strArray(info.addresses, ","), "10.5.0.2,fd00::2");
    EXPECT_EQ(info.notAfter, kStart + 1 * kj::HOURS);
    auto raw = readCertificate(leaf.certificate);
    EXPECT_EQ(X509_get_key_usage(raw.get()), uint32_t{KU_DIGITAL_SIGNATURE});
    EXPECT_EQ(X509_get_extended_key_usage(raw.get()), uint32_t{XKU_SSL_CLIENT});
    auto issuer = readCertificate(authority.certificate);
    EXPECT_EQ(X509_verify(raw.get(), X509_get0_pubkey(issuer.get())), 1);
    EXPECT_EQ(X509_check_issued(issuer.get(), raw.get()), X509_V_OK);
    EXPECT_EQ(EVP_PKEY_get_base_id(readKey(leaf.key).get()),
              EVP_PKEY_get_base_id(readKey(authority.key).get()));
    checkPair(leaf.certificate, leaf.key);
  }
}

// Catches: a leaf without a subject whose names a strict verifier may ignore (RFC 5280 §4.1.2.6).
TEST(Pki, NamesAreCriticalWithoutASubject) {
  Pem key;
  auto authority = ed25519Authority(key);
  for (bool named : {false, true}) {
    auto leaf = issue(authority, key,
                      {.commonName = named ? "n"_kj : ""_kj, .addresses = kj::arr(kj::str("::1"))});
    auto raw = readCertificate(leaf.certificate);
    int at = X509_get_ext_by_NID(raw.get(), NID_subject_alt_name, -1);
    ASSERT_GE(at, 0);
    EXPECT_EQ(X509_EXTENSION_get_critical(X509_get_ext(raw.get(), at)), named ? 0 : 1);
  }
}

// Catches: a fresh certificate that a peer refuses because its clock is a minute slow; a lifetime
// cut short.
TEST(Pki, DefaultValidityAllowsForClockSkew) {
  Pem key;
  auto authority = ed25519Authority(key);
  auto now = kj::systemPreciseCalendarClock().now();
  auto info = inspect(issue(authority, key, {.lifetime = 24 * kj::HOURS}).certificate);
  EXPECT_LE(info.notBefore, now - 4 * kj::MINUTES);
  EXPECT_GE(info.notAfter, now + 23 * kj::HOURS);
}

// Catches: a host name that fits no common name making the whole certificate fail.
TEST(Pki, CommonNameThatIsTooLongIsLeftOut) {
  Pem key;
  auto authority = ed25519Authority(key);
  for (size_t length : {64u, 65u}) {
    auto name = kj::heapString(length);
    memset(name.begin(), 'a', length);
    auto info = inspect(issue(authority, key, {.commonName = name}).certificate);
    EXPECT_EQ(info.commonName.size(), length == 64 ? 64u : 0u);
  }
}

// Catches: serial numbers that repeat, or that DER shortens (leading zeros) or makes negative.
TEST(Pki, SerialNumbersAreLongAndDiffer) {
  Pem key;
  auto authority = ed25519Authority(key);
  kj::String last;
  for (int i = 0; i < 200; ++i) {  // a leading zero octet has odds of 1 in 256 each time
    auto serial = inspect(issue(authority, key, {}).certificate).serial;
    ASSERT_EQ(serial.size(), 32u);
    EXPECT_TRUE(serial[0] >= '4' && serial[0] <= '7') << serial.cStr();
    EXPECT_NE(serial, last);
    last = kj::mv(serial);
  }
}

// Catches: options that would end in a certificate with another content.
TEST(Pki, BadOptionsAreRefusedByName) {
  Pem key;
  auto authority = ed25519Authority(key);
  auto other = makeAuthority({.organization = "other"});
  auto leaf = issue(authority, key, {});
  auto tooLong = kj::heapString(65);
  memset(tooLong.begin(), 'o', 65);
  EXPECT_TRUE(
      containsText(refusal([&] {
                     issue(authority, key, {.addresses = kj::arr(kj::str("10.5.0"))});
                   }),
                   "\"10.5.0\" is not an IPv4 or IPv6 address"));
  EXPECT_TRUE(
      containsText(refusal([&] { issue(authority, key, {.dnsNames = kj::arr(kj::str("a b"))}); }),
                   "\"a b\" is not a DNS name"));
  EXPECT_TRUE(
      containsText(refusal([&] {
                     issue(authority, key, {.organizations = kj::arr(kj::mv(tooLong))});
                   }),
                   "longer than 64"));
  EXPECT_TRUE(containsText(refusal([&] { issue(authority, other.key, {}); }),
                           "does not belong to the CA certificate"));
  EXPECT_TRUE(containsText(refusal([&] { issue(leaf.certificate, leaf.key, {}); }), "not a CA"));
  EXPECT_TRUE(containsText(refusal([&] { checkPair(leaf.certificate, key); }),
                           "does not belong to the certificate"));
}

// Catches: malformed text that is accepted or crashes the parser.
TEST(Pki, OtherTextIsRefusedWithWhatWasFound) {
  Pem key;
  auto authority = ed25519Authority(key);
  auto broken = kj::str(authority);
  broken[60] = broken[60] == 'A' ? 'B' : 'A';
  EXPECT_TRUE(containsText(refusal([&] { inspect(""); }), "no PEM block"));
  EXPECT_TRUE(containsText(refusal([&] { inspect("MIIB"); }), "no PEM block"));
  EXPECT_TRUE(containsText(refusal([&] { inspect(key); }), "\"ED25519 PRIVATE KEY\""));
  EXPECT_TRUE(containsText(refusal([&] { readKey(authority); }), "\"CERTIFICATE\""));
  EXPECT_TRUE(containsText(refusal([&] { inspectRequest(authority); }), "a certificate request"));
  EXPECT_TRUE(containsText(
      refusal([&] { inspect("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"); }),
      "does not hold a certificate"));
  EXPECT_TRUE(
      containsText(refusal([&] {
                 readKey("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n");
               }),
               "EC PRIVATE KEY"));
}

// Catches: blocks in front of the one that is meant (EC PARAMETERS, a certificate before its key).
TEST(Pki, OtherBlocksAreSkipped) {
  Pem key;
  auto authority = ed25519Authority(key);
  auto both = kj::str(authority, "some text\n", kj::StringPtr(key));
  EXPECT_EQ(EVP_PKEY_eq(readKey(both).get(), readKey(key).get()), 1);
  EXPECT_EQ(inspect(kj::str(kj::StringPtr(key), authority)).organizations[0], "talos");
}

// Catches: content of a request that reaches the certificate without the signer's decision.
TEST(Pki, RequestIsReadButTheSignerDecides) {
  Pem authorityKey;
  auto authority = ed25519Authority(authorityKey);
  for (auto type : {KeyType::kEd25519, KeyType::kEcdsaP256}) {
    auto key = makeKey(type);
    auto request = makeRequest(key, {.commonName = "node1",
                                     .organizations = kj::arr(kj::str("os:admin")),
                                     .dnsNames = kj::arr(kj::str("node1")),
                                     .addresses = kj::arr(kj::str("10.5.0.2"))});
    auto asked = inspectRequest(request);
    EXPECT_EQ(asked.commonName, "node1");
    EXPECT_EQ(kj::strArray(asked.organizations, ","), "os:admin");
    EXPECT_EQ(kj::strArray(asked.dnsNames, ","), "node1");
    EXPECT_EQ(kj::strArray(asked.addresses, ","), "10.5.0.2");
    auto signedPem = signRequest(authority, authorityKey, request,
                                 {.addresses = asked.addresses.releaseAsArray(), .client = false});
    auto info = inspect(signedPem);
    EXPECT_TRUE(info.organizations.empty());
    EXPECT_EQ(kj::strArray(info.addresses, ","), "10.5.0.2");
    checkPair(signedPem, key);
  }
}

// Catches: a request that is signed although it was altered on its way.
TEST(Pki, RequestWithABadSignatureIsRefused) {
  auto request = makeRequest(makeKey(KeyType::kEd25519), {.commonName = "aaaa"});
  std::string text(request.cStr());
  auto body = text.substr(text.find('\n'), text.rfind("-----END") - text.find('\n'));
  auto der = kj::decodeBase64(kj::StringPtr(body.c_str()));
  auto* name = static_cast<kj::byte*>(memmem(der.begin(), der.size(), "aaaa", 4));
  ASSERT_NE(name, nullptr);
  name[0] = 'b';
  auto altered = kj::str("-----BEGIN CERTIFICATE REQUEST-----\n", kj::encodeBase64(der, true),
                         "-----END CERTIFICATE REQUEST-----\n");
  EXPECT_TRUE(containsText(refusal([&] { inspectRequest(altered); }), "does not match its key"));
}

// Catches: a request in which this reader finds one name, and another reader a different one.
TEST(Pki, RequestWithTwoCommonNamesIsRefused) {
  auto key = readKey(makeKey(KeyType::kEd25519));
  Request request(X509_REQ_new());
  X509_REQ_set_pubkey(request.get(), key.get());
  for (auto name : {"one", "two"}) {
    auto* bytes = reinterpret_cast<const unsigned char*>(name);
    ASSERT_EQ(X509_NAME_add_entry_by_NID(X509_REQ_get_subject_name(request.get()), NID_commonName,
                                         V_ASN1_UTF8STRING, bytes, -1, -1, 0),
              1);
  }
  ASSERT_GT(X509_REQ_sign(request.get(), key.get(), nullptr), 0);
  auto text = writeRequest(request.get());
  EXPECT_TRUE(containsText(refusal([&] { inspectRequest(text); }), "more than one common name"));
}

// Catches: a machine that gets a CA certificate because it requested one.
TEST(Pki, RequestForAnAuthorityIsRefused) {
  auto key = readKey(makeKey(KeyType::kEd25519));
  Request request(X509_REQ_new());
  X509_REQ_set_pubkey(request.get(), key.get());
  STACK_OF(X509_EXTENSION)* extensions = sk_X509_EXTENSION_new_null();
  KJ_DEFER(sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free));
  sk_X509_EXTENSION_push(
      extensions, X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE"));
  ASSERT_EQ(X509_REQ_add_extensions(request.get(), extensions), 1);
  ASSERT_GT(X509_REQ_sign(request.get(), key.get(), nullptr), 0);
  auto text = writeRequest(request.get());
  EXPECT_TRUE(containsText(refusal([&] { inspectRequest(text); }), "asks for a CA certificate"));
  Pem authorityKey;
  auto authority = ed25519Authority(authorityKey);
  EXPECT_TRUE(containsText(refusal([&] { signRequest(authority, authorityKey, text, {}); }),
                           "asks for a CA certificate"));
}

// Catches: a hash over the certificate in place of its public key (a renewed one would not match).
TEST(Pki, FingerprintIsOfThePublicKey) {
  Pem authorityKey;
  auto authority = ed25519Authority(authorityKey);
  auto request = makeRequest(makeKey(KeyType::kEd25519), {});
  auto one = fingerprint(signRequest(authority, authorityKey, request, {}));
  auto two = fingerprint(signRequest(authority, authorityKey, request, {.commonName = "x"}));
  EXPECT_EQ(one, two);
  EXPECT_NE(one, fingerprint(authority));
  EXPECT_EQ(kj::decodeBase64(one).size(), 32u);
}

// Catches: a fixed or malformed token; a letter that never occurs (a biased or short alphabet).
TEST(Pki, TokensHaveTheirFormAndUseTheWholeAlphabet) {
  bool used[128] = {};
  for (int i = 0; i < 200; ++i) {
    auto token = makeToken();
    ASSERT_EQ(token.size(), 23u);
    ASSERT_EQ(token[6], '.');
    for (char c : token) used[static_cast<unsigned char>(c)] = true;
  }
  // 4400 draws of 36: a missing letter has odds of 1 in 10^52.
  for (char c = 'a'; c <= 'z'; ++c) EXPECT_TRUE(used[static_cast<int>(c)]) << c;
  for (char c = '0'; c <= '9'; ++c) EXPECT_TRUE(used[static_cast<int>(c)]) << c;
  EXPECT_NE(makeToken(), makeToken());
}

// Catches: a key that stays readable in freed memory after its owner dropped it.
TEST(Pki, PemIsZeroedWhenItIsReplaced) {
  auto text = kj::str("secret-secret-secret-secret-secret");
  auto* where = text.begin();
  size_t size = text.size();
  struct NoFree : kj::ArrayDisposer {  // frees nothing, so that the memory can be looked at
    void disposeImpl(void*, size_t, size_t, size_t, void (*)(void*)) const override {}
  } noFree;
  Pem pem(kj::String(where, size, noFree));
  pem = Pem();
  for (size_t i = 0; i < size; ++i) ASSERT_EQ(where[i], 0) << i;
}

}  // namespace
}  // namespace talos::pki
