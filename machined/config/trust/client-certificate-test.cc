#include "machined/config/trust/client-certificate.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

struct ClientCertificate : testing::Test {
  ~ClientCertificate() noexcept override {}
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  kj::Date now = kj::systemPreciseCalendarClock().now();

  static kj::String request(pki::Pem& key) {
    key = pki::makeKey(pki::KeyType::kEd25519);
    pki::LeafOptions options;
    options.commonName = "someone";
    options.organizations = kj::arr(kj::str("os:admin"), kj::str("os:impersonator"));
    options.addresses = kj::arr(kj::str("10.0.0.1"));
    options.dnsNames = kj::arr(kj::str("node"));
    return pki::makeRequest(key, options);
  }
  kj::String sign(kj::StringPtr request, std::initializer_list<kj::StringPtr> roles,
                  uint64_t lifetimeS = 3600) {
    kj::Vector<kj::String> list;
    for (auto role : roles) list.add(kj::str(role));
    return signClientCertificate(authority.certificate, authority.key, request.asArray(), list,
                                 lifetimeS, now);
  }
};

// Catches: rights or names that come from the request, a certificate that a server could use, a key
// that is not the caller's.
TEST_F(ClientCertificate, SaysWhatTheCallerWasGivenAndNothingElse) {
  pki::Pem key;
  auto certificate = sign(request(key), {"os:reader", "os:etcd:backup"}, 7200);
  pki::checkPair(certificate, key);
  auto info = pki::inspect(certificate);
  EXPECT_EQ(info.commonName, "someone"_kj);
  EXPECT_EQ(kj::strArray(info.organizations, " "), "os:reader os:etcd:backup");
  EXPECT_EQ(info.addresses.size(), 0u);
  EXPECT_EQ(info.dnsNames.size(), 0u);
  EXPECT_FALSE(info.authority);
  auto left = info.notAfter - now;
  EXPECT_LE(left, 7202 * kj::SECONDS);
  EXPECT_GE(left, 7190 * kj::SECONDS);
}

TEST_F(ClientCertificate, EndsWithItsAuthority) {
  authority = pki::makeAuthority({.lifetime = 1 * kj::HOURS});
  pki::Pem key;
  auto info = pki::inspect(sign(request(key), {"os:admin"}, kLongestLifetimeS));
  EXPECT_LE(info.notAfter - now, 1 * kj::HOURS + 2 * kj::SECONDS);
}

// Catches: a request that is signed although it must not be, and a refusal without a reason.
TEST_F(ClientCertificate, RefusesTheRest) {
  pki::Pem key;
  auto good = request(key);
  auto broken = kj::str(good);
  broken[broken.size() / 2] = broken[broken.size() / 2] == 'A' ? 'B' : 'A';
  struct Row {
    kj::StringPtr request;
    std::initializer_list<kj::StringPtr> roles;
    uint64_t lifetimeS;
    const char* says;
  };
  auto large = kj::str(kj::repeat('x', 20'000));
  for (auto& row :
       {Row{good, {}, 3600, "1 to 16 roles"},
        Row{good, {"os:impersonator"}, 3600, "os:impersonator\" is not a valid role"},
        Row{good, {"os:reader", "os:root"}, 3600, "os:root\" is not a valid role"},
        Row{good, {"system:masters"}, 3600, "is not a valid role; use os:admin"},
        Row{good, {"os:reader"}, 59, "60 s to 87600 h, not for 59 s"},
        Row{good, {"os:reader"}, kLongestLifetimeS + 1, "87600 h"},
        Row{good, {"os:reader"}, UINT64_MAX, "87600 h"}, Row{broken, {"os:reader"}, 3600, ""},
        Row{"", {"os:reader"}, 3600, "PEM"}, Row{large, {"os:reader"}, 3600, "16384 bytes"}}) {
    auto e = kj::runCatchingExceptions([&] { sign(row.request, row.roles, row.lifetimeS); });
    ASSERT_NE(e, nullptr) << row.says;
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kInvalidArgument) << row.says;
    std::string text(messageOf(KJ_ASSERT_NONNULL(e)).cStr());
    EXPECT_NE(text.find(row.says), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace talos::machined
